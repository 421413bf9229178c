"""A party has its matrix X in memory once, from the end of its start to the end of a run."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_common.data.shard import Shard
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RunId
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.inprocess.parties import Parties
from fenchel_server.federationrun import FederationRun
from support.kits import make_federation

ROWS, COLUMNS = 20_000, 400
FEATURES = tuple(f"f{column:04}" for column in reversed(range(COLUMNS)))
LARGE, SMALL = ClientId("large"), ClientId("small")
X_BYTES = {"dense": ROWS * COLUMNS * 8, "sparse": ROWS * COLUMNS * (8 + 4)}


def shard(kind: str, *, rows: int, name: str) -> Shard:
    """No entry is zero, so that a sparse matrix is no smaller."""
    X = np.full((rows, COLUMNS), 1.0 / COLUMNS)
    y = np.where(np.arange(rows) % 2, 1.0, -1.0)
    return Shard(tuple(f"{name}-{row}" for row in range(rows)), FEATURES, csr_array(X) if kind == "sparse" else X, y)


def config(algorithm: str, settings: dict[str, object]) -> RunConfig:
    return RunConfig.from_mapping(
        {
            "name": "memory",
            "algorithm": algorithm,
            "settings": settings,
            "privacy": "plain",
            "benchmark": True,
            "acknowledge_row_leak": True,
            "alignment": "hmac",
            "key": {"bits": 2048},
        }
    )


@pytest.fixture
def copies_of() -> Iterator[Callable[[str], tuple[float, float]]]:
    """How many times X is in memory now, and the most since the last question."""
    tracemalloc.start()

    def count(kind: str) -> tuple[float, float]:
        now, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        return now / X_BYTES[kind], peak / X_BYTES[kind]

    yield count
    tracemalloc.stop()


HYFDCA: dict[str, object] = {"lambda": 0.1, "local": "paper"}
FEDAVG: dict[str, object] = {"lambda": 0.1}


@pytest.mark.parametrize(
    ("kind", "algorithm", "settings", "most"),
    [("dense", "hyfdca", HYFDCA, 1.6), ("dense", "fedavg", FEDAVG, 1.6), ("sparse", "hyfdca", HYFDCA, 3.3)],
)
def test_a_party_has_its_matrix_in_memory_once(
    kind: str,
    algorithm: str,
    settings: dict[str, object],
    most: float,
    copies_of: Callable[[str], tuple[float, float]],
    tmp_path: Path,
) -> None:
    """A sparse matrix is copied for a moment where its rows are moved, and twice where they are squared."""
    kits = {name: Kit.load(path) for name, path in make_federation(tmp_path / "kits", (LARGE, SMALL)).items()}
    roster = kits["server"].roster
    consent = Consent(roster.fingerprint(), accepts=frozenset(Concession))
    copies_of(kind)
    large = Party(kits[LARGE], shard(kind, rows=ROWS, name=LARGE), state=tmp_path / LARGE, consent=consent)
    now, _ = copies_of(kind)
    assert now < 1.2
    small = Party(kits[SMALL], shard(kind, rows=20, name=SMALL), state=tmp_path / SMALL, consent=consent)
    parties = Parties({LARGE: large, SMALL: small}, RunId("run-1"))
    run = FederationRun(config(algorithm, settings), roster, certificate=LastCertificate)
    done = parties.set_up(run.setup(1))
    now, peak = copies_of(kind)
    assert now < 1.2
    assert peak < most
    server = run.restore(done.record, done.snapshot)
    for round_id in (1, 2):
        parties.round(server, round_id, restarted=run.clients if round_id == 1 else frozenset())
    now, peak = copies_of(kind)
    assert now < 1.2
    assert peak < most


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_start_of_a_party_needs_the_matrix_twice_and_no_more(
    kind: str, copies_of: Callable[[str], tuple[float, float]], tmp_path: Path
) -> None:
    kit = Kit.load(make_federation(tmp_path / "kits", (LARGE, SMALL))[LARGE])
    given = shard(kind, rows=ROWS, name=LARGE)
    copies_of(kind)
    party = Party(kit, given, state=tmp_path / LARGE)
    now, peak = copies_of(kind)
    assert now < 2.2
    assert peak < 2.4
    del given
    assert copies_of(kind)[0] < 1.2
    del party
    assert copies_of(kind)[0] < 0.2
