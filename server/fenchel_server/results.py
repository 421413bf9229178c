"""The figures of a run that has ended, and the model where it is released to the server, as files."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fenchel_common.errors import StoreError
from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_server.release import Release
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
    """Writes RUN.json into `directory`."""
    text = json.dumps(result_of(record, parties=parties), indent=2) + "\n"
    return _written(directory / f"{record.run}.json", text.encode())


def write_model(directory: Path, run: RunId, release: Release) -> Path:
    """Writes RUN.model.npz into `directory`: features and weights, and P, D and gap, or what the noise promises."""
    if release.weights is None:
        raise AssertionError("there is a model to write")
    proof = release.certificate if release.noise is None else asdict(release.noise)
    content = io.BytesIO()
    np.savez(content, features=np.array(release.features), weights=release.weights, **proof)
    return _written(directory / f"{run}.model.npz", content.getvalue())


def _written(path: Path, content: bytes) -> Path:
    """Whoever looks finds the whole file or none."""
    scratch = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        raise StoreError(f"the result cannot be written to {path}: {error.strerror}") from error
    return path
