"""Transcripts of the round machine: what happened, and what the machine wanted done about it."""

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_server.rounds.events import (
    AwaitClients,
    BeginAttempt,
    BeginRound,
    ClientsPresent,
    Close,
    Effect,
    Event,
    Gather,
    PhaseGathered,
    PhaseRequested,
    RoundReady,
    Started,
)
from fenchel_server.rounds.machine import step
from fenchel_server.rounds.phases import Rules, RunState
from fenchel_server.rounds.stopping import Limits, Progress
from fenchel_server.store import Ending, RunStatus

NORTH, SOUTH, WEST = ClientId("north"), ClientId("south"), ClientId("west")
ALL = frozenset({NORTH, SOUTH, WEST})
NONE: frozenset[ClientId] = frozenset()
Transcript = list[tuple[Event, tuple[Effect, ...]]]


def rules(*, quorum: int = 2, attempts: int = 2, rounds: int | None = 100, seconds: float | None = None) -> Rules:
    limits = Limits(rounds=rounds, seconds=seconds)
    return Rules(ALL, quorum=quorum, attempts=attempts, deadline_s=30.0, wait_s=600.0, limits=limits)


def play(state: RunState, transcript: Transcript) -> RunState:
    for event, expected in transcript:
        state, effects = step(state, event)
        assert effects == expected, f"after {event}"
    return state


def present(*clients: ClientId, life: str = "a", stop: str | None = None) -> ClientsPresent:
    return ClientsPresent(dict.fromkeys(clients, life), stop)


def requested(phase: str, *asked: ClientId) -> PhaseRequested:
    return PhaseRequested(phase, frozenset(asked or ALL))


def gathered(phase: str, *answered: ClientId, stop: str | None = None, **absent: str) -> PhaseGathered:
    reasons = {ClientId(client): reason for client, reason in absent.items()}
    return PhaseGathered(phase, frozenset(answered), reasons, stop)


def ready(round_id: int, *, gap: float | None = None, ending: Ending | None = None, seconds: float = 1.0) -> RoundReady:
    return RoundReady(RoundMetrics(round=RoundId(round_id), gap=gap), seconds, ending)


def wait(*, enough: int, grace_s: float) -> AwaitClients:
    return AwaitClients(ALL, enough=enough, grace_s=grace_s, timeout_s=600.0)


def begin_round(round_id: int, available: frozenset[ClientId], restarted: frozenset[ClientId]) -> BeginRound:
    return BeginRound(RoundId(round_id), available, restarted)


def closed(status: RunStatus, reason: str) -> tuple[Close]:
    return (Close(Ending(status, reason)),)


def in_round_one(given: Rules) -> RunState:
    """A run whose set-up was committed by an earlier server, in the first phase of round 1."""
    return play(
        RunState(given),
        [
            (Started(RoundId(1), Progress()), (BeginAttempt(), wait(enough=given.quorum, grace_s=30.0))),
            (present(*ALL), (begin_round(1, ALL, NONE),)),
            (requested("inner_product"), (Gather(RoundId(1), "inner_product"),)),
        ],
    )
