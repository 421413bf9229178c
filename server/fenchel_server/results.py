"""The figures of a run that has ended, as a file for people and programs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fenchel_common.errors import StoreError
from fenchel_common.runconfig import RunConfig
from fenchel_server.store import RunRecord

CERTIFIED = ("primal", "dual", "gap", "accuracy")


def result_of(record: RunRecord, *, parties: int) -> dict[str, object]:
    """What the server knows of an ended run; the certificate's figures are None where no round had one."""
    outcome: Mapping[str, Any] = json.loads(record.outcome) if record.outcome else {}
    certificate = outcome.get("certificate", {})
    return {
        "run": record.run,
        "name": record.name,
        "status": record.status.value,
        "reason": record.reason,
        **{name: certificate.get(name) for name in CERTIFIED},
        "clients": parties,
        "key_bits": record.key_bits,
        "key_fingerprint": record.key_fingerprint,
        "privacy": RunConfig.from_json(record.config).privacy,
        **{name: value for name, value in outcome.items() if name != "certificate"},
    }


def write_result(directory: Path, record: RunRecord, *, parties: int) -> Path:
    """Writes RUN.json into `directory`; whoever looks finds the whole file or none."""
    path = directory / f"{record.run}.json"
    scratch = path.with_name(f".{path.name}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps(result_of(record, parties=parties), indent=2) + "\n", encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise StoreError(f"the result cannot be written to {path}: {error.strerror}") from error
    return path
