"""Corrective HyFDCA at its three privacy levels: the same bits in the model, and what the server gets to see."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2 as pb
from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_client.algorithms.codec import RowCodec
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.crypto.words import PlainVector
from support.corrective import LAST, LEVELS, RESULTS, SECOND, at_level, halves_of, state_of
from support.messages import vectors_in
from support.problems import problem
from support.simulation import Simulation

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

SMALL = problem(rows=60, columns=8, lambda_=0.05)
SPLITS = [(2, 2), (1, 4), (4, 1)]


@pytest.mark.parametrize("grid", SPLITS)
def test_a_run_gives_the_same_bits_at_every_level(grid: tuple[int, int]) -> None:
    runs = [at_level(SMALL, grid, level) for level in LEVELS]
    masked = [at_level(SMALL, grid, level, masked=True) for level in ("sealed", "paper")]
    for _ in range(3 if grid == (2, 2) else 2):
        first, *others = [run.round().metrics for run in (*runs, *masked)]
        assert all(metrics == first for metrics in others)
        assert first.gap is not None
    models = [run.model() for run in runs]
    assert models[0].all()
    for run in masked:
        np.testing.assert_array_equal(models[0], run.model())
    for run, model in zip(runs[1:], models[1:], strict=True):
        np.testing.assert_array_equal(models[0], model)
        np.testing.assert_array_equal(runs[0].alpha(SMALL.ids), run.alpha(SMALL.ids))


def test_absences_restarts_and_missing_labels_change_no_bit_either() -> None:
    runs = [
        at_level(SMALL, (2, 2), level, labels="first", masked=masked)
        for level, masked in (("sealed", False), ("plain", False), ("sealed", True))
    ]
    for run in runs:
        run.round()
        run.round(available=run.names - {LAST})
        run.restart(SECOND)
        run.round(restarted=frozenset({SECOND}))
        run.round()
    assert runs[0].reports == runs[1].reports == runs[2].reports
    np.testing.assert_array_equal(runs[0].model(), runs[1].model())
    np.testing.assert_array_equal(runs[0].model(), runs[2].model())
    np.testing.assert_array_equal(runs[0].alpha(SMALL.ids), runs[1].alpha(SMALL.ids))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("grid", "phases"),
    [
        ((2, 2), ["inner_product", "local_dual", "primal"]),
        ((1, 4), ["inner_product", "local_dual", "primal"]),
        ((4, 1), ["local_dual", "primal"]),
    ],
)
def test_a_round_takes_three_round_trips_and_two_without_shared_samples(
    grid: tuple[int, int], phases: list[str], level: str
) -> None:
    """Section 3.1; certificates cost none. The round that ends the run takes one more, to measure the final model."""
    run = at_level(SMALL, grid, level, stop={"gap": None, "rounds": 2})
    run.run()
    assert len(run.reports) == 3
    assert all(report.metrics.gap is not None for report in run.reports)
    for round_id, further in ((1, []), (2, []), (3, ["measured"])):
        assert [phase for at, phase in run.phases if at == round_id] == phases + further


@pytest.mark.parametrize("level", LEVELS)
def test_the_server_holds_the_kind_of_vectors_of_its_level_and_the_parties_read_one_model(level: str) -> None:
    run = at_level(SMALL, (2, 2), level)
    run.run(2)
    state = state_of(run)
    by_sample = PlainVector if level == "plain" else EncryptedVector
    by_feature = EncryptedVector if level == "sealed" else PlainVector
    assert {type(vector) for blocks in (state.anchor.alpha, state.norms) for vector in blocks.parts().values()} == {
        by_sample
    }
    of_features = (state.anchor.weights, state.model, state.pending.point, state.pending.vertex)
    assert {type(vector) for blocks in of_features for vector in blocks.parts().values()} == {by_feature}
    assert type(state.pending.conjugates_and_products) is by_feature
    parts = [half.final_model(run.server.last_state(client)) for client, half in run.participants.items()]
    np.testing.assert_array_equal(parts[0], parts[2])


BY_FEATURE = {"primal.point", "primal.vertex", "primal.model", "local_dual.weights"}
NUMBERS = {"inner_product.gram", "local_dual.figures", "primal.conjugates_and_products"}
BY_SAMPLE = {"inner_product.point", "inner_product.vertex", "local_dual.point", "local_dual.alpha"}


@pytest.mark.parametrize(
    ("level", "in_clear"),
    [("sealed", set()), ("paper", BY_FEATURE | NUMBERS), ("plain", BY_FEATURE | NUMBERS | BY_SAMPLE)],
)
def test_what_each_level_shows_the_server(level: str, in_clear: set[str]) -> None:
    run = at_level(SMALL, (2, 2), level)
    run.run(2)
    shown: set[str] = set()
    hidden: set[str] = set()
    for _, phase, _, _, result in run.messages:
        for name, vector in vectors_in(RESULTS[phase].FromString(result)):
            (shown if vector.WhichOneof("kind") == "plain" else hidden).add(f"{phase}.{name}")
    assert shown == in_clear
    assert hidden == (BY_FEATURE | NUMBERS | BY_SAMPLE) - in_clear


class Known:
    """Every number that parties put into vectors, took out of them or remember, by what it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: dict[str, list[Array]] = {}
        for name, argument in (("to_blocks", 2), ("to_features", 1), ("to_numbers", 1)):
            self._watch_argument(monkeypatch, name, argument)
        for name in ("from_blocks", "from_features", "from_numbers"):
            self._watch_result(monkeypatch, name)

    def add(self, kind: str, *values: Array | float) -> None:
        self.numbers.setdefault(kind, []).extend(np.ravel(np.asarray(each, dtype=np.float64)) for each in values)

    def _watch_argument(self, monkeypatch: pytest.MonkeyPatch, name: str, argument: int) -> None:
        honest = getattr(RowCodec, name)

        def watched(codec: RowCodec, *args: Any, **values: Any) -> object:
            self.add(name, args[argument])
            return honest(codec, *args, **values)

        monkeypatch.setattr(RowCodec, name, watched)

    def _watch_result(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        honest = getattr(RowCodec, name)

        def watched(codec: RowCodec, *args: Any) -> Array:
            values: Array = honest(codec, *args)
            self.add(name, values)
            return values

        monkeypatch.setattr(RowCodec, name, watched)

    def remember(self, run: Simulation) -> None:
        """What the clients have in their memories after a round."""
        for half in halves_of(run).values():
            for memory in half._memories.values():
                for entry in memory.entries.values():
                    self.add("weights", entry.weights)
                    self.add("predictions", entry.predictions)
                    self.add("alpha", entry.alpha)
                    self.add("conjugates", entry.conjugate_part)
                self.add("gram", memory.gram)
                self.add("spread", memory.spread)


def told_objectives(run: Simulation) -> set[float]:
    """The sums over all samples that parties tell in clear, at every level."""
    told: set[float] = set()
    for _, phase, _, _, result in run.messages:
        if phase == "primal":
            values = pb.CorrectivePrimalResult.FromString(result).objectives
            told |= {values.primal, values.dual, values.accuracy, values.squared_norm, values.row_norm}
    return told


def words_in(blobs: Iterable[bytes]) -> Words:
    """Every run of eight bytes, as little-endian numbers."""
    # Eight readings, each one byte further on, have between them every run of eight bytes.
    pieces = [
        np.frombuffer(blob, dtype="<u8", offset=start, count=(len(blob) - start) // 8)
        for blob in blobs
        for start in range(min(8, len(blob)))
    ]
    return np.unique(np.concatenate(pieces))


def found(known: Known, seen: Words, *, but: set[float]) -> dict[str, int]:
    """How many of the known numbers are among the words, as doubles or in fixed point."""
    counts = {}
    for kind, pieces in known.numbers.items():
        values = np.unique(np.concatenate(pieces))
        # Whole multiples of 2^-8 are no secrets: zeros, labels, and what framing looks like.
        values = values[(values * 256.0 != np.rint(values * 256.0)) & ~np.isin(values, sorted(but))]
        doubles = values.astype("<f8").view("<u8")
        units = np.concatenate([np.rint(values * 2.0**32), np.trunc(values * 2.0**32)]).astype("<i8").view("<u8")
        assert len(values) > 0 or kind == "spread"
        counts[kind] = int(np.isin(doubles, seen).sum() + np.isin(np.unique(units), seen).sum())
    return counts


def transcript(run: Simulation, known: Known) -> tuple[Words, set[float]]:
    """Three rounds, with one that a client returns to without its memory, as the server sees them."""
    snapshots = []
    run.run(2)
    run.restart(SECOND)
    for restarted in (frozenset({SECOND}), frozenset()):
        run.round(restarted=restarted)
        known.remember(run)
        state = run.server.snapshot()
        snapshots += [*state.records, state.own]
    for shard in run.shards.values():
        known.add("rows", np.asarray(shard.X))
    preparations = [half.preparation() for half in halves_of(run).values()]
    return words_in([*preparations, *run.envelopes, *snapshots]), told_objectives(run)


def test_a_sealed_transcript_has_no_number_in_clear_but_the_sums_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, α, inner products, ŵ, the Gram matrix, conjugates: not as doubles, not in fixed point, at no offset."""
    known = Known(monkeypatch)
    run = at_level(problem(rows=60, columns=8, lambda_=0.05, loss="logistic"), (2, 2), "sealed")
    seen, told = transcript(run, known)
    assert found(known, seen, but=told) == dict.fromkeys(known.numbers, 0)
    assert len(told) > 8
    assert np.isin(np.array(sorted(told)).astype("<f8").view("<u8"), seen).all()


def test_the_search_finds_what_the_other_levels_show(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known(monkeypatch)
    seen, told = transcript(at_level(SMALL, (2, 2), "paper"), known)
    counts = found(known, seen, but=told)
    assert min(counts[kind] for kind in ("to_features", "from_features", "weights", "to_numbers", "from_numbers")) > 10
    assert counts["to_blocks"] == counts["from_blocks"] == counts["alpha"] == counts["rows"] == 0
    with monkeypatch.context() as inner:
        known = Known(inner)
        seen, told = transcript(at_level(SMALL, (2, 2), "plain"), known)
    counts = found(known, seen, but=told)
    assert min(counts[kind] for kind in ("to_blocks", "from_blocks", "alpha")) > 10
    assert counts["rows"] == 0


def test_all_that_parties_tell_besides_vectors_is_named() -> None:
    """Fields of results in a sealed run that are no ciphertext: whether a memory was lost, a hash, the objectives."""
    run = at_level(SMALL, (2, 2), "sealed")
    run.run(2)
    others: dict[str, set[str]] = {}
    for _, phase, _, _, result in run.messages:
        for field, value in RESULTS[phase].FromString(result).ListFields():
            if not isinstance(value, vectors_pb2.Vector | hyfdca_pb2.BlockVector):
                others.setdefault(phase, set()).add(field.name)
    assert others == {"local_dual": {"combination"}, "primal": {"objectives", "accepted"}}
