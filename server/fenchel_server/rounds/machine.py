"""The round machine: a pure function from a state and an event to the next state and the effects to perform.

A try at the set-up or at a round is abandoned when too few clients are present or answer. Its results are void, and
the next try begins from the last commit, with an algorithm restored from it. That algorithm assumes nothing about the
clients' memories, because a client may have seen more of the abandoned try than was committed. A client that failed
one try is left out of the next if the others suffice, unless it failed the first one and has restarted since. After
`attempts` tries the run is stopped, with the names of the clients that it waits for, and can be resumed. A run has
failed if a party opened a sum that no honest run can have.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.setup import NOT_USABLE
from fenchel_server.rounds.events import (
    Advance,
    AwaitClients,
    BeginAttempt,
    BeginFinish,
    BeginRound,
    BeginSetup,
    Broke,
    ClientsPresent,
    Close,
    CommitRound,
    CommitSetup,
    Effect,
    Event,
    Gather,
    PhaseGathered,
    PhaseRequested,
    ResultRefused,
    RoundReady,
    SetupReady,
    Started,
)
from fenchel_server.rounds.phases import Attempt, RunState, Stage
from fenchel_server.rounds.stopping import at_the_limit, exhausted, not_finite
from fenchel_server.store import Ending, RunStatus
from fenchel_server.store.base import SETUP_ROUND, WITH_MODEL

Step = tuple[RunState, tuple[Effect, ...]]
SECOND_TRY: Final = 2

_ALTERED = (
    f"{NOT_USABLE}. A party or the server has altered a sum, or values outgrow the encrypted vectors; going on would "
    "not lead to a meaningful model"
)


def step(state: RunState, event: Event) -> Step:
    """The state after the event, and the effects to perform now, in order; `AssertionError` if it cannot happen."""
    match state.stage, event:
        case Stage.STARTING, Started():
            return _started(state, event)
        case Stage.WAITING, ClientsPresent():
            return _clients_present(state, event)
        case ((Stage.SETUP | Stage.TRAINING | Stage.FINISHING), PhaseRequested(phase)):
            return state, (Gather(state.round_id, phase),)
        case ((Stage.SETUP | Stage.TRAINING), PhaseGathered()):
            return _gathered(state, event)
        case Stage.FINISHING, PhaseGathered():
            return _completed(state, event)
        case ((Stage.SETUP | Stage.TRAINING), ResultRefused(client, reason)):
            return _abandon(_without(state, {client: f"rejected: {reason}"}))
        case Stage.SETUP, SetupReady():
            return _next_round(state, CommitSetup())
        case Stage.TRAINING, RoundReady():
            return _round_ready(state, event)
        case ((Stage.SETUP | Stage.TRAINING | Stage.FINISHING), Broke(reason=reason)):
            return _close(state, RunStatus.FAILED, reason)
        case _:
            raise _unexpected(state, event)


def _started(state: RunState, event: Started) -> Step:
    started = replace(state, round_id=event.next_round, progress=event.progress)
    if event.ending is not None:
        return _finish(started, event.ending, BeginAttempt())
    return _wait(started, BeginAttempt(), grace_s=state.rules.deadline_s)


def _clients_present(state: RunState, event: ClientsPresent) -> Step:
    if event.stop is not None:
        return _close(state, RunStatus.STOPPED, event.stop)
    trusted = {client: name for client, name in event.incarnations.items() if _is_trusted(state.attempt, client, name)}
    enough = _enough(state)
    chosen = trusted if len(trusted) >= enough else event.incarnations
    if len(chosen) < enough:
        missing = dict.fromkeys(state.rules.clients - frozenset(chosen), "not attached")
        return _abandon(_without(state, missing))
    attempt = Attempt(number=state.attempt.number, incarnations=chosen)
    if state.round_id == SETUP_ROUND:
        return replace(state, stage=Stage.SETUP, attempt=attempt), (BeginSetup(),)
    restarted = frozenset(client for client, name in chosen.items() if state.synced.get(client, name) != name)
    closing = exhausted(state.progress, state.rules.limits) is not None
    training = replace(state, stage=Stage.TRAINING, attempt=attempt)
    return training, (BeginRound(state.round_id, attempt.available, restarted, closing),)


def _gathered(state: RunState, event: PhaseGathered) -> Step:
    if event.stop is not None:
        return _close(state, RunStatus.STOPPED, event.stop)
    if not_usable := [client for client, reason in sorted(event.absent.items()) if NOT_USABLE in reason]:
        return _close(state, RunStatus.FAILED, f"{', '.join(not_usable)}: {_ALTERED}")
    lessened = _without(state, event.absent)
    suffices = len(lessened.attempt.answering) >= _enough(state)
    return (lessened, (Advance(event.phase),)) if suffices else _abandon(lessened)


def _round_ready(state: RunState, event: RoundReady) -> Step:
    ending = not_finite(event.metrics) or event.ending
    if ending is None and (limit := exhausted(state.progress, state.rules.limits)) is not None:
        ending = at_the_limit(limit, event.metrics, gap=state.rules.gap)
    grown = replace(
        state,
        progress=state.progress.plus_round(seconds=event.seconds),
        synced={**state.synced, **state.attempt.incarnations},
    )
    commit = CommitRound(state.round_id, ending)
    if ending is not None:
        return _finish(replace(grown, round_id=RoundId(state.round_id + 1)), ending, commit)
    return _next_round(grown, commit)


def _next_round(state: RunState, commit: Effect) -> Step:
    ahead = replace(state, round_id=RoundId(state.round_id + 1), attempt=Attempt())
    return _wait(ahead, commit, grace_s=0.0)


def _abandon(state: RunState) -> Step:
    if state.attempt.number >= state.rules.attempts:
        return _close(state, RunStatus.STOPPED, _paused(state.attempt.left_out))
    again = replace(state.attempt, number=state.attempt.number + 1)
    return _wait(replace(state, attempt=again, synced={}), BeginAttempt(), grace_s=state.rules.deadline_s)


def _wait(state: RunState, first: Effect, *, grace_s: float) -> Step:
    rules = state.rules
    wait = AwaitClients(rules.clients, enough=_enough(state), grace_s=grace_s, timeout_s=rules.wait_s)
    return replace(state, stage=Stage.WAITING), (first, wait)


def _finish(state: RunState, ending: Ending, first: Effect) -> Step:
    if ending.status not in WITH_MODEL:
        return replace(state, stage=Stage.ENDED), (first, Close(ending))
    return replace(state, stage=Stage.FINISHING, attempt=Attempt(), ending=ending), (first, BeginFinish())


def _completed(state: RunState, event: PhaseGathered) -> Step:
    if state.ending is None:
        raise _unexpected(state, event)
    return replace(state, stage=Stage.ENDED), (Close(state.ending, event.absent),)


def _close(state: RunState, status: RunStatus, reason: str) -> Step:
    return replace(state, stage=Stage.ENDED), (Close(Ending(status, reason)),)


def _is_trusted(attempt: Attempt, client: ClientId, incarnation: str) -> bool:
    """Whether a client can be in the next try: it has not failed, or failed once, because its process started anew."""
    restarted = attempt.incarnations.get(client, incarnation) != incarnation
    return client not in attempt.left_out or (restarted and attempt.number == SECOND_TRY)


def _without(state: RunState, absent: Mapping[ClientId, str]) -> RunState:
    attempt = state.attempt
    return replace(state, attempt=replace(attempt, left_out={**attempt.left_out, **absent}))


def _enough(state: RunState) -> int:
    return len(state.rules.clients) if state.round_id == SETUP_ROUND else state.rules.quorum


def _paused(left_out: Mapping[ClientId, str]) -> str:
    return "paused: waiting for " + ", ".join(f"{client} ({reason})" for client, reason in sorted(left_out.items()))


def _unexpected(state: RunState, event: Event) -> AssertionError:
    return AssertionError(f"{type(event).__name__} cannot happen while {state.stage.value}")
