"""A run in which clients and server die at any moment."""

from typing import Any, ClassVar, Final

import numpy as np

from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId, RoundId
from support.corrective import PHASES
from support.halves import half_a_round
from support.simulation import Simulation, WholeRun

CLIENT_KILLED, RESULT_LOST, ABSENT, SERVER_KILLED = 0.03, 0.03, 0.1, 0.35
"""Chances: before and after each answer of a client; of each result; of each client in a round; of each round."""
PAIR_PHASES: Final = ("pair_products", "pair_duals", "pair_primal")


class Storm(Simulation):
    """A run whose clients are killed before and after answers, and whose server is killed in all phases.

    As a driver does, it tells the server which clients have another process than in the last round that was committed.

    Attributes
    ----------
    processes, begun, known
        The number of each client's process: now, when the round began, and in the last committed round.
    refusals
        Why processes that were younger than a round refused a task of it.
    """

    deadly: ClassVar[tuple[str, ...]] = (*PHASES, "")

    def __init__(self, *args: Any, seed: int, **values: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.raging = False
        super().__init__(*args, **values)
        self.processes = dict.fromkeys(sorted(self.names), 0)
        self.begun: dict[ClientId, int] = {}
        self.known: dict[ClientId, int] = {}
        self.refusals: set[str] = set()

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        self._kill_perhaps(client)
        try:
            result = super().answer(round_id, phase, client, body)
        except Refusal as refusal:
            if self.processes[client] == self.begun[client]:
                raise
            self.refusals.add(str(refusal))
            return None
        self._kill_perhaps(client)
        return None if self._strikes(RESULT_LOST) else result

    def stormy_round(self) -> None:
        """A round that is tried again, each time with other clients, until the server lives to its end."""
        committed, round_id = self.server.snapshot(), len(self.reports) + 1
        self.raging = True
        while self._strikes(SERVER_KILLED):
            there, restarted = self._clients()
            until = str(self.rng.choice(self.deadly))
            half_a_round(self, round_id, until=until, available=there, restarted=restarted)
            self.restore(committed)
            self.known = {}
        self._commit()

    def calm_round(self) -> None:
        self.raging = False
        self._commit()

    def _commit(self) -> None:
        there, restarted = self._clients()
        self.round(available=there, restarted=restarted)
        self.known |= self.begun

    def _clients(self) -> tuple[frozenset[ClientId], frozenset[ClientId]]:
        """The clients with which a round begins, and those whose process the server knows to be new."""
        self.begun = {client: process for client, process in self.processes.items() if not self._strikes(ABSENT)}
        restarted = {client for client, process in self.begun.items() if self.known.get(client, process) != process}
        return frozenset(self.begun), frozenset(restarted)

    def _strikes(self, chance: float) -> bool:
        return self.raging and bool(self.rng.random() < chance)

    def _kill_perhaps(self, client: ClientId) -> None:
        if self._strikes(CLIENT_KILLED):
            self.restart(client)
            self.processes[client] += 1


class StormOfWholeRun(WholeRun, Storm):
    """The same for a run that goes on with rounds of pairs."""

    deadly = (*PHASES, *PAIR_PHASES, "")
