"""The figures of a run that has ended, and the model where it is released to the server, as files."""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from fenchel_common import jsonrecord
from fenchel_common.errors import StoreError
from fenchel_common.ids import RunId
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_server.release import Release
from fenchel_server.rounds.ledger import costs_of
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store import RoundRecord, RunRecord


def history_of(rounds: Sequence[RoundRecord]) -> list[dict[str, object]]:
    """The committed rounds with their metrics, absences and costs, as they go into JSON; the first is the set-up."""
    return [
        {
            "round": committed.round_id,
            "metrics": json.loads(committed.metrics),
            "absences": [asdict(absence) for absence in committed.absences],
            **costs_of(committed),
        }
        for committed in rounds
    ]


def result_of(record: RunRecord, rounds: Sequence[RoundRecord], *, parties: int) -> dict[str, object]:
    """The server's knowledge of an ended run: its figures, its costs, its configuration and its committed rounds.

    The figures of the certificate are None if no round had a certificate.
    """
    outcome = None if record.outcome is None else RunOutcome.from_json(record.outcome)
    certificate = LastCertificate() if outcome is None else outcome.certificate
    written = {} if outcome is None else outcome.to_mapping()
    config = RunConfig.from_json(record.config)
    return {
        "run": record.run,
        "name": record.name,
        "status": record.status.value,
        "reason": record.reason,
        **{name: value for name, value in jsonrecord.to_mapping(certificate).items() if name != "round"},
        "clients": parties,
        "key_bits": record.key_bits,
        "key_fingerprint": record.key_fingerprint,
        "privacy": config.privacy,
        "cipher": config.cipher_in_use,
        "precision": config.precision,
        **{name: value for name, value in written.items() if name != "certificate"},
        "config": json.loads(record.config),
        "history": history_of(rounds),
    }


def write_result(directory: Path, record: RunRecord, rounds: Sequence[RoundRecord], *, parties: int) -> Path:
    """Writes RUN.json into `directory`."""
    text = json.dumps(result_of(record, rounds, parties=parties), indent=2) + "\n"
    return _written(directory / f"{record.run}.json", text.encode())


def write_model(directory: Path, run: RunId, release: Release) -> Path:
    """Writes RUN.model.npz into `directory`: features and weights, and P, D and gap, or the parameters of the noise.

    Features are pseudonyms. Each party has the names of its own features in its RUN.features.csv.
    """
    if release.weights is None:
        raise AssertionError("only a whole model is written")
    proof = _known_of(release.certificate) if release.noise is None else asdict(release.noise)
    content = io.BytesIO()
    named = {"features": np.array(release.features), "weights": release.weights}
    if release.classes:
        named["classes"] = np.array(release.classes)
    np.savez(content, allow_pickle=False, **named, **proof)
    return _written(directory / f"{run}.model.npz", content.getvalue())


def _known_of(certificate: LastCertificate) -> dict[str, float]:
    """P, D and gap, as far as they are known; an algorithm without a certificate has P alone."""
    figures = {"primal": certificate.primal, "dual": certificate.dual, "gap": certificate.gap}
    return {name: value for name, value in figures.items() if value is not None}


def _written(path: Path, content: bytes) -> Path:
    """Writes the file at once: a reader finds the whole file or none."""
    scratch = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        raise StoreError(f"the result cannot be written to {path}: {error.strerror}") from error
    return path
