"""The runs whose models and messages are on record, and their digests; as a program, those of all runs in clear.

Features are multiples of 2^-8. With values in fixed point of 32 fractional bits, sums over rows are then exact in
HyFDCA, whatever the order in which a processor's linear algebra adds.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, Final, Literal
from unittest.mock import patch

import numpy as np

from fenchel_client.crypto.stamps import Stamp
from fenchel_common.algorithms import SETTINGS
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId
from fenchel_common.records import NONCE_BYTES, Moment
from support.averaging import Averaging
from support.keys import MASKS, cipher, run_key
from support.simulation import Simulation

SEED: Final = 11
ROUNDS: Final = 3

Level = Literal["plain", "paper", "sealed"]
CipherName = Literal["paillier", "masks"]

HYFDCA: Final[dict[str, dict[str, Any]]] = {
    "paper": {"local": "paper", "h": 20},
    "theory": {"local": "theory", "h": 20},
    "corrective": {"local": "corrective"},
    "corrective logistic": {"local": "corrective", "loss": "logistic"},
}
AVERAGING: Final[dict[str, tuple[tuple[int, int], dict[str, Any]]]] = {
    "fedavg": ((2, 2), {"lambda": 0.0625}),
    "hyfem": ((2, 2), {"lambda": 0.0625}),
    "dualfl": ((4, 1), {"lambda": 0.0625}),
    "scaffold": ((4, 1), {}),
    "scaffpd": ((4, 1), {}),
    "fedsgm": ((4, 1), {}),
}


def table() -> Dataset:
    rng = np.random.default_rng(SEED)
    X = np.round(64.0 * rng.standard_normal((96, 8))) / 256.0
    y = np.where(X @ rng.standard_normal(8) > 0.0, 1.0, -1.0)
    return Dataset("made", X, y, tuple(f"x{column}" for column in range(8)))


def simulated(name: str, level: Level, hidden_by: CipherName = "paillier") -> Simulation | Averaging:
    key: dict[str, Any] = {}
    if level != "plain":
        key = {"key": MASKS} if hidden_by == "masks" else {"cipher": cipher(), "key": run_key()}
    if name in HYFDCA:
        common = {"lambda": 0.0625, "seed": SEED, "stop": {"gap": None}, "privacy": level, "certificate_every": 1}
        settings = SETTINGS["hyfdca"].parse({**common, **HYFDCA[name]})
        return Simulation.of(partition(table(), grid=(2, 2)), settings, **key)
    grid, values = AVERAGING[name]
    common = {"seed": SEED, "privacy": level, "measure_every": 1}
    return Averaging.of(name, partition(table(), grid=grid), {**common, **values}, **key)


def digest(*parts: bytes) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()[:16]


def digests(name: str, level: Level, hidden_by: CipherName = "paillier") -> tuple[str, str]:
    """The digests of the model and of all messages, with their records, after three rounds."""
    with patch.object(Stamp, "fresh", counting_stamps()):
        run = simulated(name, level, hidden_by)
        for _ in range(ROUNDS):
            run.round()
        model = run.weights(table().features).astype("<f8").tobytes()
    return digest(model), digest(*run.envelopes)


def counting_stamps() -> Callable[[ClientId, Moment, bytes], Stamp]:
    """Makes stamps whose nonces count up, so that a run repeats the bytes of its messages."""
    numbers = itertools.count(1)
    return lambda party, moment, view: Stamp(party, moment, view, next(numbers).to_bytes(NONCE_BYTES, "big"))


if __name__ == "__main__":
    json.dump({name: digests(name, "plain") for name in (*HYFDCA, *AVERAGING)}, sys.stdout)
