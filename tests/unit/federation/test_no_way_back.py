"""A party does not go back: how far it has come is on disk, and outlives its process."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fenchel_client.runrecords import MAX_REFUSALS
from fenchel_client.statefolder import StateFolder
from fenchel_common.algorithms.corrective.messages import RoundChoices
from fenchel_common.errors import FenchelError, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_common.records import ROUND, Moment
from fenchel_common.setup import PartyRun
from fenchel_common.wire.corrective import round_choices_to_bytes
from fenchel_deploy.inprocess.parties import asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.contract import AlgorithmServer, RoundReport, ServerState
from fenchel_server.federationrun import FederationRun
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import HOLDER, OTHER, RUN, Federation, config

TERMS = config(settings={"lambda": 0.1, "local": "corrective"}, stop={"gap": None, "rounds": 20})
FURTHER = "it has come further in this run"


class Rounds:
    """A federation after its set-up, whose server can go back to any round."""

    def __init__(self, directory: Path) -> None:
        self.federation = Federation(directory)
        self._run = FederationRun(TERMS, self.federation.kits["server"].roster, certificate=LastCertificate)
        self._done: SetupDone = self.federation.set_up(TERMS)
        self.attempt = 1
        self.server: AlgorithmServer = self._run.restore(self._done.record, self._done.snapshot)

    def round(self, round_id: int, *, restarted: frozenset[ClientId] = frozenset()) -> RoundReport:
        first = self.server.begin_round(RoundId(round_id), self._run.clients, restarted, attempt=self.attempt)
        return run_phases(first, self.server, self.answer(round_id))

    def answer(self, round_id: int) -> Callable[[str, ClientId, bytes], bytes]:
        return lambda phase, client, body: asked(
            self.federation.parties[client], RUN, round_id, phase, body, attempt=self.attempt
        )

    def go_back(self, snapshot: ServerState, *, attempt: int) -> None:
        self.server = self._run.restore(self._done.record, snapshot)
        self.attempt = attempt

    def restart(self, *names: ClientId) -> None:
        for name in names:
            self.federation.parties[name] = self.federation.party(name)

    def folder(self, name: ClientId) -> Path:
        return self.federation.directory / name

    def mark(self, name: ClientId) -> tuple[int, int]:
        kept = self.kept(name)
        return kept.attempt, kept.round

    def kept(self, name: ClientId) -> PartyRun:
        kept = StateFolder(self.folder(name)).run(RUN)
        assert kept is not None
        return kept


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds(tmp_path)


def refuses_to_go_back(rounds: Rounds, round_id: int) -> None:
    with pytest.raises(Refusal) as caught:
        rounds.round(round_id, restarted=frozenset({HOLDER, OTHER}))
    assert caught.value.public_reason == FURTHER


def test_the_mark_is_on_disk_before_a_result_leaves(rounds: Rounds) -> None:
    assert rounds.mark(OTHER) == (0, 0)
    first = rounds.server.begin_round(RoundId(1), frozenset({HOLDER, OTHER}), frozenset(), attempt=1)
    rounds.answer(1)(first.phase, OTHER, first.tasks[OTHER])
    assert (rounds.mark(HOLDER), rounds.mark(OTHER)) == ((0, 0), (1, 1))


def test_parties_that_have_all_restarted_do_not_begin_an_older_round_again(rounds: Rounds) -> None:
    """The server would tell another story from there on, and hear P and D of it in clear."""
    rounds.round(1)
    old = rounds.server.snapshot()
    for round_id in (2, 3):
        rounds.round(round_id)
    rounds.restart(HOLDER, OTHER)
    rounds.go_back(old, attempt=2)
    refuses_to_go_back(rounds, 2)
    assert rounds.mark(HOLDER) == rounds.mark(OTHER) == (1, 3)


def test_a_party_from_a_copied_state_folder_goes_back_alone(rounds: Rounds, tmp_path: Path) -> None:
    rounds.round(1)
    old = rounds.server.snapshot()
    shutil.copytree(rounds.folder(OTHER), tmp_path / "copy")
    for round_id in (2, 3):
        rounds.round(round_id)
    shutil.rmtree(rounds.folder(OTHER))
    shutil.copytree(tmp_path / "copy", rounds.folder(OTHER))
    rounds.restart(HOLDER, OTHER)
    assert rounds.mark(OTHER) == (1, 1)
    rounds.go_back(old, attempt=2)
    refuses_to_go_back(rounds, 2)


def test_a_server_that_was_killed_repeats_the_round_under_way_with_parties_that_restarted(rounds: Rounds) -> None:
    rounds.round(1)
    committed = rounds.server.snapshot()
    rounds.round(2)
    rounds.restart(HOLDER, OTHER)
    rounds.go_back(committed, attempt=2)
    rounds.round(2, restarted=frozenset({HOLDER, OTHER}))
    assert rounds.mark(HOLDER) == rounds.mark(OTHER) == (2, 2)
    rounds.restart(HOLDER, OTHER)
    rounds.go_back(committed, attempt=1)
    refuses_to_go_back(rounds, 2)


def test_a_task_that_a_party_refuses_is_no_mark(rounds: Rounds) -> None:
    rounds.round(1)
    for _ in range(MAX_REFUSALS + 1):
        with pytest.raises(FenchelError):
            rounds.answer(7)("inner_product", OTHER, b"")
    assert rounds.mark(OTHER) == (1, 1)
    rounds.round(2)


def test_a_mark_outlives_the_count_of_refusals(rounds: Rounds) -> None:
    """Both are in the same file."""
    rounds.round(1)
    kept = rounds.kept(OTHER)
    StateFolder(rounds.folder(OTHER)).keep_run(RUN, replace(kept, refusals=1))
    rounds.restart(OTHER)
    rounds.round(2, restarted=frozenset({OTHER}))
    assert (rounds.mark(OTHER), rounds.kept(OTHER).refusals) == ((1, 2), 1)


def test_invented_rounds_do_not_lead_past_the_mark_on_disk(rounds: Rounds) -> None:
    """Nobody contributes to an empty round, so nobody confirms it; but the view before the marked round is on disk."""
    rounds.round(1)
    old = rounds.server.snapshot()
    for round_id in (2, 3):
        rounds.round(round_id)
    rounds.restart(HOLDER, OTHER)
    rounds.go_back(old, attempt=2)
    server = rounds.server
    assert isinstance(server, CorrectiveServer)
    nobody = round_choices_to_bytes(RoundChoices(frozenset(), True, False, 0), server.layout.clients)
    server._transcript.add(Moment(2, RoundId(2), ROUND), choices=nobody)
    server._round_id = RoundId(2)
    with pytest.raises(Refusal, match="this party has answered in that round after other records"):
        rounds.round(3, restarted=frozenset({HOLDER, OTHER}))
