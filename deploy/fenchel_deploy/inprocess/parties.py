"""Whole parties in one process, with their kits and state folders, for a set-up and its rounds."""

from collections.abc import Mapping
from typing import Final

from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.contract import AlgorithmServer, RoundReport
from fenchel_server.rounds.setup import SetupDone, SetupServer

ATTEMPT: Final = 1
"""The attempt in which all tasks are given, unless a caller names another."""


def asked(party: Party, run: RunId, round_id: int, phase: str, body: bytes, *, attempt: int = ATTEMPT) -> bytes:
    """The party's result for a task, without its envelope of times. Raises the party's refusal."""
    result, _ = phase_result_from_bytes(party.handle(Task(run, RoundId(round_id), phase, body, attempt=attempt)))
    return result


class Parties:
    """Parties of one federation, for the set-up and the rounds of one run."""

    def __init__(self, parties: Mapping[ClientId, Party], run: RunId) -> None:
        self._parties = parties
        self._run = run

    def answer(self, round_id: int, phase: str, client: ClientId, body: bytes) -> bytes:
        """The result of a party's task."""
        return asked(self._parties[client], self._run, round_id, phase, body)

    def set_up(self, setup: SetupServer) -> SetupDone:
        """Runs the set-up to its outcome."""
        return run_phases(setup.begin(), setup, lambda phase, client, body: self.answer(0, phase, client, body))

    def round(
        self, algorithm: AlgorithmServer, round_id: int, *, restarted: frozenset[ClientId] = frozenset()
    ) -> RoundReport:
        """Runs a round with all parties to its report."""
        first = algorithm.begin_round(RoundId(round_id), frozenset(self._parties), restarted, attempt=ATTEMPT)
        return run_phases(first, algorithm, lambda phase, client, body: self.answer(round_id, phase, client, body))
