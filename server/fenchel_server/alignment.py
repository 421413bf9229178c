"""The server's half of the alignment: relays the parties' lists and lays out what comes of it.

Phase `align_0` asks every party for its own list under its own secret. With blinding parties, phases `blind_1` and so
on follow (`fenchel_server.blinding`). In the ring, in phase `align_j` party p raises the list of the party j positions
before it in the roster, so that all lists travel at once and after K − 1 relays every party has raised every list. A
party meets its own list only at the start; the finished lists come to the server alone. With `hmac`, `align_0` is all.
Each list carries a tag that the server cannot make; the parties know by it whether the list is the one that is due.

The server learns which pseudonyms are equal and the order in which a party lists them; it never sees an id.
"""

from binascii import hexlify
from collections.abc import Mapping, Sequence

import numpy as np

from fenchel_common.blinding import BlindingWays
from fenchel_common.errors import AlignmentIncomplete, InvalidInput, ResultRejected
from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.layout import MAX_CLIENTS, check_names
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import NAMES, VOCABULARY
from fenchel_common.wire.alignment import (
    PSEUDONYM_BYTES,
    AlignmentMethod,
    Listing,
    TaggedList,
    listing_from_bytes,
    phase_name,
    raised_from_bytes,
    relay_to_bytes,
    start_to_bytes,
)
from fenchel_common.wire.names import feature_names_to_bytes, names_read_from_bytes
from fenchel_common.wire.pieces import ELEMENT_BYTES
from fenchel_common.wire.vocabulary import vocabulary_asked_to_bytes, vocabulary_given_from_bytes
from fenchel_server.blinding import BlindedLists
from fenchel_server.cohorts import Alignment, OverlapRule, lay_out
from fenchel_server.contract import PhaseRequest
from fenchel_server.holdings import Holding
from fenchel_server.rejection import read_or_reject
from fenchel_server.samplerule import SampleRule


class AlignmentServer:
    """Drives the alignment of one run; all parties must answer every phase.

    Nothing of it is durable: after a crash, or if a party did not answer (`AlignmentIncomplete`), `begin` begins again.
    """

    def __init__(
        self,
        clients: Sequence[ClientId],
        *,
        method: AlignmentMethod,
        slots: int,
        feature_slots: int,
        seed: int,
        blinders: Sequence[ClientId] = (),
        overlap: OverlapRule = OverlapRule.ERROR,
        samples: SampleRule = SampleRule.LABELLED,
        all_take_part: bool = True,
    ) -> None:
        if not clients:
            raise InvalidInput("clients: an alignment needs at least one party")
        check_names(clients, "clients", limit=MAX_CLIENTS)
        self._clients = tuple(clients)
        self._method = method
        self._ways = BlindingWays(self._clients, tuple(blinders)) if method is AlignmentMethod.BLINDERS else None
        self._slots = slots
        self._feature_slots = feature_slots
        self._seed = seed
        self._overlap = overlap
        self._samples = samples
        self._all_take_part = all_take_part
        self._step = 0
        self._listings: dict[ClientId, Listing] = {}
        self._lists: dict[ClientId, TaggedList] = {}
        self._blinded: BlindedLists | None = None

    @classmethod
    def of_run(cls, config: RunConfig, roster: Roster) -> "AlignmentServer":
        """The alignment of a run with this configuration."""
        clients = roster.names
        return cls(
            clients,
            blinders=roster.blinders,
            method=AlignmentMethod(config.alignment),
            slots=config.sample_slots(len(clients)),
            feature_slots=config.feature_slots,
            seed=config.seed or 0,
            overlap=OverlapRule(config.overlap),
            samples=SampleRule(config.samples),
            all_take_part=config.trains,
        )

    def vocabulary_request(self) -> PhaseRequest:
        """The phase before `align_0` in a run with `[features]`."""
        return PhaseRequest(VOCABULARY, dict.fromkeys(self._clients, vocabulary_asked_to_bytes()))

    def begin(self, vocabularies: Mapping[ClientId, bytes] | None = None) -> PhaseRequest:
        """Starts from the beginning, forgetting whatever went before.

        `vocabularies` are the results of the phase `vocabulary`, if the run has one; all parties must have given one.
        """
        self._step = 0
        self._listings = {}
        self._lists = {}
        self._blinded = None
        given: dict[ClientId, bytes] = {}
        if vocabularies is not None:
            self._check_all(VOCABULARY, vocabularies)
            given = {
                client: read_or_reject(client, vocabulary_given_from_bytes, vocabularies[client])
                for client in self._clients
            }
        body = start_to_bytes(self._method, given)
        return PhaseRequest(phase=phase_name(0), tasks=dict.fromkeys(self._clients, body))

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | Alignment:
        """Takes the results of the phase under way and gives the next one, or the outcome."""
        if self._blinded is not None:
            return self._blinded.advance(phase, results) or self._outcome_of(self._blinded)
        assert phase == phase_name(self._step), "results of another phase than the one under way"
        self._check_all(phase, results)
        if self._step == 0:
            self._listings = {client: self._listing(client, results[client]) for client in self._clients}
            if self._ways is not None:
                self._blinded = BlindedLists(self._ways, self._listings)
                return self._blinded.request() or self._outcome_of(self._blinded)
            self._lists = {client: listing.ids for client, listing in self._listings.items()}
        else:
            self._lists = {self._owner(client): self._raised(client, results[client]) for client in self._clients}
        if self._method is AlignmentMethod.HMAC or self._step == len(self._clients) - 1:
            return self._outcome({client: listed.elements for client, listed in self._lists.items()})
        self._step += 1
        return PhaseRequest(
            phase=phase_name(self._step),
            tasks={client: relay_to_bytes(self._lists[self._owner(client)]) for client in self._clients},
        )

    def names_request(self) -> PhaseRequest:
        """The phase that relays the sealed names of features, once all parties have answered `align_0`."""
        sealed = {client: given.sealed_names for client, given in self._listings.items() if given.sealed_names}
        return PhaseRequest(NAMES, dict.fromkeys(self._clients, feature_names_to_bytes(sealed)))

    def _check_all(self, phase: str, results: Mapping[ClientId, bytes]) -> None:
        missing = [client for client in self._clients if client not in results]
        if missing:
            raise AlignmentIncomplete(f"no answer in {phase} from {', '.join(missing)}; the alignment starts afresh")

    def _listing(self, client: ClientId, body: bytes) -> Listing:
        listing = read_or_reject(client, listing_from_bytes, body)
        if (listing.samples > 0) != (self._ways is not None):
            raise ResultRejected(client, "its list is not made by the method of the run")
        return listing

    def _owner(self, client: ClientId) -> ClientId:
        """Whose list `client` raises in the step under way."""
        return self._clients[(self._clients.index(client) - self._step) % len(self._clients)]

    def _raised(self, client: ClientId, body: bytes) -> TaggedList:
        raised = read_or_reject(client, raised_from_bytes, body)
        sent = self._lists[self._owner(client)]
        count, expected = (len(listed.elements) // ELEMENT_BYTES for listed in (raised, sent))
        if count != expected:
            raise ResultRejected(client, f"{count} elements where {expected} were sent")
        return raised

    def _outcome_of(self, blinded: BlindedLists) -> Alignment:
        return self._outcome({client: blinded.elements(client) for client in self._clients})

    def _outcome(self, lists: Mapping[ClientId, bytes]) -> Alignment:
        holdings = [
            Holding(
                client=client,
                pseudonyms=np.frombuffer(lists[client], dtype=f"S{ELEMENT_BYTES}"),
                features=np.frombuffer(hexlify(self._listings[client].features), dtype=f"S{2 * PSEUDONYM_BYTES}"),
                has_labels=self._listings[client].has_labels,
            )
            for client in self._clients
        ]
        return lay_out(
            holdings,
            slots=self._slots,
            feature_slots=self._feature_slots,
            seed=self._seed,
            overlap=self._overlap,
            samples=self._samples,
            all_take_part=self._all_take_part,
        )


def check_names_read(results: Mapping[ClientId, bytes]) -> None:
    """Raises `ResultRejected` for a malformed answer to the names of features."""
    for client, result in results.items():
        read_or_reject(client, names_read_from_bytes, result)
