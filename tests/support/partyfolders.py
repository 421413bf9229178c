"""A party's private folder as its client keeps it, written at once."""

import json
from pathlib import Path
from typing import Any

from fenchel_common.model import write_model
from fenchel_deploy.standing import Standing
from support.models import small_model

PARTY = "clinic"
PARTY_RUN = "run-0a1b2c3d"
BEGINS: dict[str, Any] = {
    "event": "begins",
    "run": PARTY_RUN,
    "name": "first",
    "round": 1,
    "algorithm": "hyfdca",
    "privacy": "sealed",
    "cipher": "masks",
    "key_bits": 2048,
    "key_fingerprint": None,
    "gap_target": 1e-3,
    "rounds_limit": 10,
}
SEEN = {PARTY: {"up": {"CorrectiveDualResult.alpha": {"ciphertext individual": 30}}, "down": {"A.b": {"public": 3}}}}


def worked(round_id: int, gap: float | None) -> dict[str, Any]:
    """The word of a client that has worked in a round."""
    spent = {"encrypt": 0.5, "wait": 2.0}
    return {"event": "worked", "run": PARTY_RUN, "round": round_id, "gap": gap, "seconds": spent}


def keep_ledger(folder: Path) -> None:
    path = folder / f"{PARTY_RUN}.ledger.json"
    path.write_text(json.dumps({"run": PARTY_RUN, "party": PARTY, "seen": SEEN}))
    path.chmod(0o600)


def made_up_party(folder: Path) -> None:
    """A party that has trained and has its part of a model."""
    folder.mkdir()
    keep_ledger(folder)
    write_model(folder / f"{PARTY_RUN}.model", small_model())
    standing = Standing(folder, PARTY)
    standing.tell(BEGINS)
    for round_id, gap in enumerate((0.5, 0.02, 8e-4), start=1):
        standing.tell(worked(round_id, gap))
    standing.write()
