"""The attacks on sums and records of a run under way, each with its score and its claim.

Each attempt is played with parties of its own: an honest round, and two in which the server meddles. It counts as
accepted if nobody refuses anything, and if the server half itself leaves nobody out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from google.protobuf.message import Message as ProtoMessage

from fenchel.v1 import averaging_pb2, hyfdca_pb2
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.privacy import Privacy
from fenchel_common.records import ROUND
from fenchel_common.wire.records import record_from_bytes, record_to_bytes
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import SAFE, SAFE_IF_ENCRYPTED, Attack, Claims, Verdict
from fenchel_deploy.attacks.meddling import (
    Change,
    Meddler,
    Passing,
    Played,
    altered,
    doubled,
    exchanged,
    goes_on,
    invented,
    nothing,
    shifted,
    without,
)
from fenchel_deploy.attacks.recorded import Recorded, Scenario
from fenchel_deploy.attacks.rogue_cases import ROGUE
from fenchel_deploy.attacks.traces import ids_in

HONEST_ROUNDS: Final = 2
MEDDLED_ROUNDS: Final = 2
ROUNDS_OF_A_STORY: Final = 3
"""A record can come with the next task, and the answer to that one is on record with the next but one."""
SHIFTS: Final = (2.0**-32, -(2.0**-32), 2.0**-10, 1.0, 2.0**20)
"""What the server adds to sums, from one unit of a slot to nearly the bound of a value."""
ATTEMPT_FIELD: Final = b"\x08"
"""The first byte of a record: the tag of its field `attempt`."""
PHASES: Final[Mapping[str, Sequence[str]]] = {
    "HyFDCA": (INNER_PRODUCT, LOCAL_DUAL, PRIMAL),
    "corrective": (INNER_PRODUCT, LOCAL_DUAL, PRIMAL),
    "FedAvg": (LOCAL, MEASURE),
}
"""The phases of each family in which parties contribute vectors."""
REPLAYED: Final[Mapping[str, Sequence[str]]] = {
    "HyFDCA": (INNER_PRODUCT, PRIMAL),
    "corrective": (INNER_PRODUCT, PRIMAL),
    "FedAvg": (LOCAL,),
}
"""The phases in which stale contributions would not be noticed by their values."""
STEPS: Final = tuple(PHASES)
OTHER_BYTES: Final = "other bytes"
OTHER_CONTRIBUTORS: Final = "FedAvg, other contributors"
EQUIVOCATIONS: Final = (*(f"{steps}, {OTHER_BYTES}" for steps in STEPS), OTHER_CONTRIBUTORS)
FAMILY_CLAIMS: Final[Mapping[str, Claims]] = dict.fromkeys(STEPS, SAFE_IF_ENCRYPTED)

Meddling = Callable[[Played, str], Meddler]
"""Makes the meddler of one phase, after the honest rounds."""


def scenarios(level: Privacy, *, rounds: int = 0) -> dict[str, Scenario]:
    """A run of each family; every round has its certificate or measurement."""
    return {
        "HyFDCA": Scenario(level, h=3, rounds=rounds, every=1),
        "corrective": Scenario(level, "labelled", "corrective", rounds=rounds),
        "FedAvg": Scenario(level, algorithm="fedavg", rounds=rounds, every=1),
    }


class _InPhase(Meddler):
    """Changes vectors of one party's results, or of all tasks, in one phase."""

    def __init__(
        self, played: Played, phase: str, *, contribution: Change | None = None, sums: Change | None = None
    ) -> None:
        self._key, self._phase = played.key, phase
        self._contributor = played.layout.clients[0]
        self._contribution, self._sums = contribution, sums

    def task(self, task: Passing) -> ProtoMessage:
        if task.phase != self._phase or self._sums is None:
            return task.body
        return altered(task.body, self._key, self._sums)

    def result(self, result: Passing) -> ProtoMessage:
        if result.phase != self._phase or result.client != self._contributor or self._contribution is None:
            return result.body
        return altered(result.body, self._key, self._contribution)


class Stale(Meddler):
    """Puts vectors of another message in the place of one party's result in one phase."""

    def __init__(self, played: Played, phase: str, stale: ProtoMessage) -> None:
        self._key, self._phase = played.key, phase
        self._contributor, self._other = played.layout.clients[0], stale

    def result(self, result: Passing) -> ProtoMessage:
        if result.phase != self._phase or result.client != self._contributor:
            return result.body
        return exchanged(result.body, self._other, self._key)


class _OtherStory(Meddler):
    """Tells one party the record of one phase in other bytes than all others, with the same content."""

    def __init__(self, played: Played, phase: str) -> None:
        self._clients, self._phase = played.layout.clients, phase

    def records(self, task: Passing, records: Sequence[bytes]) -> Sequence[bytes]:
        return [self._retold(data) if task.client == self._clients[-1] else data for data in records]

    def _retold(self, data: bytes) -> bytes:
        record = record_from_bytes(data, self._clients)
        if record.moment.phase != self._phase or record.moment.round != HONEST_ROUNDS + 1:
            return data
        # A field that comes twice counts once.
        return ATTEMPT_FIELD + record.moment.attempt.to_bytes() + data


class _LeftOutForOne(Meddler):
    """Tells one party of a FedAvg run that another one did not train, and gives it the sums without that one's."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._left_out, _, self._told, *_ = played.layout.clients
        self._given: Mapping[str, hyfdca_pb2.BlockVector] = {}

    def records(self, task: Passing, records: Sequence[bytes]) -> Sequence[bytes]:
        return [self._retold(data) if task.client == self._told else data for data in records]

    def task(self, task: Passing) -> ProtoMessage:
        assert isinstance(task.body, averaging_pb2.AveragingTask), "of an averaging algorithm"
        if task.client == self._told and self._played.round_id > HONEST_ROUNDS:
            for entry in task.body.state.entries:
                for one in entry.sums:
                    self._take_out(one)
        return task.body

    def result(self, result: Passing) -> ProtoMessage:
        assert isinstance(result.body, averaging_pb2.AveragingResult), "of an averaging algorithm"
        if result.phase == LOCAL and result.client == self._left_out and self._played.round_id == HONEST_ROUNDS:
            self._given = {one.name: one.vector for one in result.body.vectors}
        return result.body

    def _retold(self, data: bytes) -> bytes:
        clients = self._played.layout.clients
        record = record_from_bytes(data, clients)
        if record.moment.phase != LOCAL or record.moment.round != HONEST_ROUNDS + 1:
            return data
        given = tuple(one for one in record.given if one.party != self._left_out)
        return record_to_bytes(replace(record, given=given), clients)

    def _take_out(self, summed: averaging_pb2.AveragingVector) -> None:
        key, part = self._played.key, self._given[summed.name]
        own = {block: position for position, block in enumerate(ids_in(part.blocks))}
        whole, given = (vector_from_proto(one, key) for one in (summed.vector.vector, part.vector))
        blocks = [whole.select([position]) for position in range(whole.block_count)]
        for position, block in enumerate(ids_in(summed.vector.blocks)):
            if block in own:
                blocks[position] = without(blocks[position], given.select([own[block]]))
        summed.vector.vector.CopyFrom(vector_to_proto(blocks[0].joined_with(blocks[1:])))


def _by_family(meddling: Meddling) -> Callable[[Bench, Sequence[Privacy]], Iterator[Verdict]]:
    """A play that meddles in each phase of a run of each family."""

    def play(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
        for level in levels:
            for setting, scenario in scenarios(level).items():
                recorded = bench.record(scenario)
                outcomes = {phase: _accepted(recorded, phase, meddling) for phase in PHASES[setting]}
                yield Verdict.of_attempts(outcomes, level=level, setting=setting)

    return play


def _accepted(recorded: Recorded, phase: str, meddling: Meddling, *, rounds: int = MEDDLED_ROUNDS) -> bool:
    played = Played(recorded)
    for _ in range(HONEST_ROUNDS):
        played.round()
    meddler = meddling(played, phase)

    def rest() -> None:
        for _ in range(rounds):
            played.round(meddler)

    return goes_on(rest) and not any(report.metrics.absences for report in played.reports)


def _told_apart(recorded: Recorded, phase: str, meddling: Meddling) -> bool:
    return _accepted(recorded, phase, meddling, rounds=ROUNDS_OF_A_STORY)


def _earlier_round(played: Played, phase: str) -> Meddler:
    return Stale(played, phase, played.results[played.attempt, HONEST_ROUNDS, phase, played.layout.clients[0]])


def _earlier_attempt(played: Played, phase: str) -> Meddler:
    """The round was played once already; its server was killed before the end."""
    played.round()
    stale = played.results[played.attempt, HONEST_ROUNDS + 1, phase, played.layout.clients[0]]
    played.take_back()
    return Stale(played, phase, stale)


def _play_replay(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        for setting, scenario in scenarios(level).items():
            recorded = bench.record(scenario)
            other = Played(bench.record(scenarios(level, rounds=1)[setting]))
            for _ in range(HONEST_ROUNDS + 1):
                other.round()

            def other_run(played: Played, phase: str, other: Played = other) -> Meddler:
                client = played.layout.clients[0]
                return Stale(played, phase, other.results[other.attempt, HONEST_ROUNDS + 1, phase, client])

            kinds: dict[str, Meddling] = {
                "earlier round": _earlier_round,
                "earlier attempt": _earlier_attempt,
                "another run": other_run,
            }
            for kind, meddling in kinds.items():
                outcomes = {phase: _accepted(recorded, phase, meddling) for phase in REPLAYED[setting]}
                yield Verdict.of_attempts(outcomes, level=level, setting=f"{setting}, {kind}")


def _play_equivocation(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        for setting, scenario in scenarios(level).items():
            recorded = bench.record(scenario)
            outcomes = {phase: _told_apart(recorded, phase, _OtherStory) for phase in (ROUND, *PHASES[setting])}
            yield Verdict.of_attempts(outcomes, level=level, setting=f"{setting}, {OTHER_BYTES}")
        # Rounds without measurements: figures are opened only if all parties have contributed to them.
        recorded = bench.record(Scenario(level, algorithm="fedavg", rounds=0))
        outcomes = {LOCAL: _told_apart(recorded, LOCAL, lambda played, _: _LeftOutForOne(played))}
        yield Verdict.of_attempts(outcomes, level=level, setting=OTHER_CONTRIBUTORS)


def _play_oracle(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """In a round that is repeated again and again, until parties have locked the run."""
    for level in levels:
        recorded = bench.record(scenarios(level)["HyFDCA"])
        played = Played(recorded)
        for _ in range(HONEST_ROUNDS):
            played.round()
        outcomes = {}
        for shift in SHIFTS:
            meddler = _InPhase(played, LOCAL_DUAL, sums=shifted(shift))
            outcomes[f"{shift:g}"] = goes_on(played.round, meddler)
            played.take_back()
        yield Verdict.of_attempts(outcomes, level=level, setting="shifted sums")


SUM_ATTACKS: Final = (
    Attack(
        "invented-sums",
        "hands out zeros of its own making in the place of sums",
        ROGUE,
        FAMILY_CLAIMS,
        _by_family(lambda played, phase: _InPhase(played, phase, sums=invented(0.0))),
        unchecked=STEPS,
    ),
    Attack(
        "dropped-contribution",
        "leaves one party's contribution out of a sum to which all are said to have contributed",
        ROGUE,
        FAMILY_CLAIMS,
        _by_family(lambda played, phase: _InPhase(played, phase, contribution=nothing)),
        unchecked=STEPS,
    ),
    Attack(
        "doubled-contribution",
        "counts one party's contribution twice",
        ROGUE,
        FAMILY_CLAIMS,
        _by_family(lambda played, phase: _InPhase(played, phase, contribution=doubled)),
        unchecked=STEPS,
    ),
    Attack(
        "replay",
        "puts a stale contribution of the same party and phase in the place of the one of today",
        ROGUE,
        {
            f"{steps}, {kind}": SAFE_IF_ENCRYPTED
            for steps in STEPS
            for kind in ("earlier round", "earlier attempt", "another run")
        },
        _play_replay,
        unchecked=tuple(f"{steps}, {kind}" for steps in STEPS for kind in ("earlier round", "earlier attempt")),
    ),
    Attack(
        "equivocation",
        "tells one party other records than all others",
        ROGUE,
        dict.fromkeys(EQUIVOCATIONS, SAFE),
        _play_equivocation,
        unchecked=EQUIVOCATIONS,
    ),
    Attack(
        "oracle",
        "shifts encrypted sums, and watches whether they are accepted",
        ROGUE,
        {"shifted sums": SAFE_IF_ENCRYPTED},
        _play_oracle,
        unchecked=("shifted sums",),
    ),
)
