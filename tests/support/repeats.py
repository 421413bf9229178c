"""A federation of real parties whose server begins rounds anew, with whom it likes, and commits what it likes."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from fenchel_common.errors import Refusal, ResultRejected
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.inprocess.parties import asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.federationrun import FederationRun
from support.ceremony import RUN, Federation
from support.tables import named_shards, small_dataset

Parties = frozenset[ClientId]


class Repeats:
    """Four parties with state folders, after the set-up of a run.

    Attributes
    ----------
    committed
        The number of rounds that the server has committed; it names the state of the model.
    companies
        For each party and state, the sets of parties with which it contributed, in their order.
    refusals
        The public reasons of the refusals in the newest try.
    """

    def __init__(self, directory: Path, terms: RunConfig, *, phase: str, grid: tuple[int, int] = (4, 1)) -> None:
        self.federation = Federation(directory, shards=named_shards(small_dataset(40, 4), grid=grid))
        self._run = FederationRun(terms, self.federation.kits["server"].roster, certificate=LastCertificate)
        self._terms = terms
        self._phase = phase
        self.everybody = self._run.clients
        self.attempt = 1
        self.companies: dict[tuple[ClientId, int], list[Parties]] = defaultdict(list)
        self.refusals: dict[ClientId, str] = {}
        self.set_up()

    def set_up(self) -> None:
        """A set-up of the run, the first or a further one."""
        self._done = self.federation.set_up(self._terms)
        self._snapshot = self._done.snapshot
        self.committed = 0

    def attempted(self, among: Iterable[ClientId], *, commit: bool = False, losing: Parties = frozenset()) -> bool:
        """A try at the next round; whether it ended and nobody refused.

        The server loses the results of `losing` in the counted phase.

        A party counts as a contributor once its result has left it, whether or not the server uses the result.
        """
        available = frozenset(among)
        self.attempt += 1
        self.refusals = {}
        algorithm = self._run.restore(self._done.record, self._snapshot)
        round_id = RoundId(self.committed + 1)

        def answer(phase: str, client: ClientId, body: bytes) -> bytes | None:
            party = self.federation.parties[client]
            try:
                result = asked(party, RUN, round_id, phase, body, attempt=self.attempt)
            except Refusal as error:
                self.refusals[client] = error.public_reason
                return None
            known = self.companies[client, self.committed]
            if phase == self._phase and available not in known:
                known.append(available)
            return None if phase == self._phase and client in losing else result

        try:
            run_phases(algorithm.begin_round(round_id, available, frozenset(), attempt=self.attempt), algorithm, answer)
        except ResultRejected:
            return False
        if commit:
            self._snapshot, self.committed = algorithm.snapshot(), round_id
        return not self.refusals

    def restart(self, parties: Iterable[ClientId]) -> None:
        """Their processes are killed, and start again on the same folders."""
        for client in parties:
            self.federation.parties[client] = self.federation.party(client)

    def without(self, *numbers: int) -> Parties:
        """All parties but those at these positions of the roster."""
        return self.everybody - {sorted(self.everybody)[number] for number in numbers}
