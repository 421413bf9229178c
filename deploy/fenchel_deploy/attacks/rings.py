"""Attacks on the ring of the alignment: the server relays lists that are not due, or relays lists in wrong steps.

Each set-up is honest until every party has made its first list. After that the attacks decide what the server relays.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fenchel_client.alignment import arrange
from fenchel_common.crypto.curve import hash_to_curve
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import (
    TaggedList,
    listing_from_bytes,
    phase_name,
    raised_from_bytes,
    relay_to_bytes,
    split_elements,
)
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.pseudonyms import Guesses
from fenchel_deploy.attacks.recorded import Scenario
from fenchel_deploy.inprocess.parties import ATTEMPT, asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.contract import PhaseRequest
from fenchel_server.rounds.setup import SetupDone
from fenchel_server.setup import FederationSetup

Outcomes = dict[str, bool]

FIRST_STEP: Final = 1


class OpenRing:
    """The parties of a set-up in which every party has made its first list, and these lists.

    `ids` are the sample ids behind the elements of each list; no attack reads them.
    """

    def __init__(self, bench: Bench, scenario: Scenario, run: str) -> None:
        self._parties, shards, roster = bench.parties(scenario, run)
        self.run = RunId(run)
        self.clients = roster.names
        self.ids = {name: arrange(shards[name]).ids for name in self.clients}
        setup = FederationSetup(scenario.config(run), roster, attempt=ATTEMPT)
        self.lists = run_phases(setup.begin(), _UntilFirstLists(setup), self._answer)

    def origin(self, client: ClientId, step: int) -> ClientId:
        """The party whose list `client` must raise in a step."""
        return self.clients[(self.clients.index(client) - step) % len(self.clients)]

    def raised(self, client: ClientId, step: int, relayed: TaggedList) -> TaggedList:
        """The list that `client` returns for a relayed list; raises `FenchelError` if the party refuses."""
        return raised_from_bytes(self._answer(phase_name(step), client, relay_to_bytes(relayed)))

    def finished(self, origin: ClientId) -> TaggedList:
        """The list of `origin` after every other party has raised it in the order of the protocol."""
        travelling, start = self.lists[origin], self.clients.index(origin)
        for step in range(FIRST_STEP, len(self.clients)):
            travelling = self.raised(self.clients[(start + step) % len(self.clients)], step, travelling)
        return travelling

    def accepts(self, client: ClientId, step: int, relayed: TaggedList) -> bool:
        try:
            self.raised(client, step, relayed)
        except FenchelError:
            return False
        return True

    def _answer(self, phase: str, client: ClientId, body: bytes) -> bytes:
        return asked(self._parties[client], self.run, 0, phase, body)


class _UntilFirstLists:
    """A set-up that ends when every party has made its first list; it returns these lists."""

    def __init__(self, setup: FederationSetup) -> None:
        self._setup = setup

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | Mapping[ClientId, TaggedList]:
        if phase == phase_name(0):
            return {client: listing_from_bytes(body).ids for client, body in results.items()}
        following = self._setup.advance(phase, results)
        assert not isinstance(following, SetupDone), "the alignment comes before the end"
        return following


def dictionary_slipped_in(ring: OpenRing, victim: ClientId, dictionary: Sequence[str]) -> Guesses:
    """Sends the dictionary round the ring in the steps of other lists, and the victim's list in its own steps.

    Each party raises the dictionary in a step in which it does not raise the victim's list, with the tag of the list
    that is due then.
    """
    elements = b"".join(hash_to_curve(sample, ring.run) for sample in dictionary)
    try:
        for client in ring.clients:
            step = next(step for step in (1, 2) if ring.origin(client, step) != victim)
            stolen = ring.lists[ring.origin(client, step)].tag
            elements = ring.raised(client, step, TaggedList(elements, stolen)).elements
        named = dict(zip(split_elements(elements), dictionary, strict=True))
        return tuple(named.get(element) for element in split_elements(ring.finished(victim).elements))
    except FenchelError:
        return (None,) * len(split_elements(ring.lists[victim].elements))


def repeated_lists(ring: OpenRing) -> Outcomes:
    """Relays the right list a second time: in its own step, in the next step, and after all parties have raised it."""
    client = ring.clients[1]
    origin = ring.origin(client, FIRST_STEP)
    finished = ring.finished(origin)
    return {
        "in its own step": ring.accepts(client, FIRST_STEP, ring.lists[origin]),
        "in the next step": ring.accepts(client, FIRST_STEP + 1, ring.lists[origin]),
        "after it went round": ring.accepts(origin, len(ring.clients), finished),
    }


def exchanged_positions(ring: OpenRing) -> Outcomes:
    """Relays wrong lists in a step: of another origin, of the party itself, one that skipped a party, one cut short."""
    client, count = ring.clients[0], len(ring.clients)
    due, other, last = (ring.origin(client, step) for step in (FIRST_STEP, FIRST_STEP + 1, count - 1))
    shortened = TaggedList(ring.lists[due].elements[:-32], ring.lists[due].tag)
    swapped = TaggedList(ring.lists[other].elements, ring.lists[due].tag)
    return {
        "another party's list": ring.accepts(client, FIRST_STEP, ring.lists[other]),
        "another party's list under the right tag": ring.accepts(client, FIRST_STEP, swapped),
        "the party's own list": ring.accepts(client, FIRST_STEP, ring.lists[client]),
        "a list that nobody between has raised": ring.accepts(client, count - 1, ring.lists[last]),
        "a list without its last element": ring.accepts(client, FIRST_STEP, shortened),
    }
