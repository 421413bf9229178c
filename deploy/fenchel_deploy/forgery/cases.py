"""Runs between real halves, under a real key or with masks, whose messages are tampered with.

Each run has a round that was repeated in a second attempt, a party that missed a round, and a party that restarted, so
that there are contributions of earlier rounds and attempts to replay. Beside it is a run of another name with the same
key and secret.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging.rails import CHECKPOINT_AFTER
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.ids import RunId
from fenchel_deploy.forgery.marks import compare_labels
from fenchel_deploy.forgery.openings import Record
from fenchel_deploy.inprocess.ciphers import tags_of
from fenchel_deploy.inprocess.halves import Halves
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.contract import AlgorithmServer

KEY_BITS: Final = 2048
ROWS, COLUMNS = 140, 70
"""Enough for two blocks of samples and two blocks of features at each of four parties."""
RUN, OTHER_RUN = RunId("tampered"), RunId("another")


@dataclass(frozen=True, slots=True)
class Case:
    """An algorithm at a privacy level, with one of the ciphers.

    `settings` are those that differ from the defaults, and `rounds` is how many rounds pass before anything happens.
    """

    algorithm: str
    level: str
    grid: tuple[int, int] = (2, 2)
    settings: dict[str, Any] = field(default_factory=dict)
    rounds: int = 1
    cipher: Literal["paillier", "masks"] = "paillier"

    @property
    def name(self) -> str:
        local = self.settings.get("local")
        return f"{self.algorithm} {local}" if local else self.algorithm


_WITH_PAILLIER: Final = (
    *(
        Case("hyfdca", level, settings=settings)
        for settings in ({"local": "corrective", "certificate_every": 1}, {"local": "paper"})
        for level in ("sealed", "paper")
    ),
    Case("hyfem", "sealed", settings={"measure_every": 1}),
    Case("scaffold", "sealed", grid=(3, 1), settings={"measure_every": 1}, rounds=CHECKPOINT_AFTER),
    Case("fedsgm", "sealed", grid=(3, 1), settings={"measure_every": 1}),
)
CASES: Final = (*_WITH_PAILLIER, *(replace(case, cipher="masks") for case in _WITH_PAILLIER))
"""On the averaging rails, the level `paper` encrypts what `sealed` encrypts."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of a run, and that of another run with the same key and secret."""

    record: Record
    other: Record
    cipher: PaillierCipher | None = None
    """That of a run with a Paillier key."""


class _Watched(Halves[AlgorithmClient, AlgorithmServer]):
    """A run whose seals are watched."""

    def __init__(self, *args: Any, record: Record, **values: Any) -> None:
        self._record = record
        super().__init__(*args, **values)

    def make_seal(self, pads: Pads) -> Seal:
        return self._record.seal(pads)


def recorded(case: Case) -> Recorded:
    """Runs a case twice, under one new key, and records all that is sealed and opened."""
    if case.cipher == "masks":
        masked = {run: Record(None) for run in (RUN, OTHER_RUN)}
        for run, record in masked.items():
            _run(case, run, None, RunKey.of_masks(KEY_BITS), record)
        return Recorded(masked[RUN], masked[OTHER_RUN])
    private = generate_private_key(KEY_BITS)
    pool, key = ObfuscatorPool(private), RunKey.of(private.public_key)
    slots = key.slots(VectorFormat(slot_bits=32))
    # One thread: the cases are spread over the processors.
    ciphers = {run: PaillierCipher(private, pool, tags_of(slots, run), threads=1) for run in (RUN, OTHER_RUN)}
    records = {run: Record(cipher) for run, cipher in ciphers.items()}
    for run, cipher in ciphers.items():
        _run(case, run, cipher, key, records[run])
    return Recorded(records[RUN], records[OTHER_RUN], ciphers[RUN])


def _run(case: Case, run: RunId, cipher: PaillierCipher | None, key: RunKey, record: Record) -> None:
    settings = SETTINGS[case.algorithm].parse(
        {"lambda": 0.05, "privacy": case.level, "stop": {"gap": None}, **case.settings}
    )
    family, server_half = settings.family.name, SERVER_HALVES[settings.family.name][case.algorithm]
    halves = _Watched(
        partition(_table(), grid=case.grid),
        settings,
        client_half=CLIENT_HALVES[family][case.algorithm],
        server_half=server_half,
        cipher=cipher,
        key=key,
        run=run,
        record=record,
    )
    last = max(halves.names)
    compare_labels(halves, lambda: record.seal(Pads(bytes(32))))
    for _ in range(case.rounds):
        halves.round()
    snapshot = halves.server.snapshot()
    halves.round()
    halves.reports.pop()
    halves.attempt += 1
    halves.server = server_half.restore(snapshot, settings=settings, layout=halves.alignment.federation, key=key)
    halves.round()
    for _ in range(2):
        # In the second of these rounds sums have contributions of different rounds.
        halves.round(available=halves.names - {last})
    halves.restart(last)
    halves.round(restarted=frozenset({last}))
    halves.weights(halves.alignment.federation.features)


def _table() -> Dataset:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((ROWS, COLUMNS)) / np.sqrt(COLUMNS)
    y = np.where(X @ rng.standard_normal(COLUMNS) > 0.0, 1.0, -1.0)
    return Dataset("made", X, y, tuple(f"x{column:02d}" for column in range(COLUMNS)))
