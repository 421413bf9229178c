"""The server's half of the alignment: relays the parties' lists round a ring and lays out what comes of it.

Phase `align_0` asks every party for its own list under its own secret. In phase `align_j` party p raises the list of
the party j positions before it in the roster, so that all lists travel at once and after K − 1 relays every party has
raised every list. A party meets its own list only at the start; the finished lists come to the server alone. With
`hmac`, `align_0` is all. Each list carries a tag that the server cannot make; the parties know by it whether the list
is the one that is due.

The server learns which pseudonyms are equal and the order in which a party lists them; it never sees an id.
"""

from binascii import hexlify
from collections.abc import Mapping, Sequence

import numpy as np

from fenchel_common.errors import AlignmentIncomplete, InvalidInput, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.layout import MAX_CLIENTS, check_names
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import NAMES, VOCABULARY
from fenchel_common.wire.alignment import (
    ELEMENT_BYTES,
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
from fenchel_common.wire.vocabulary import vocabulary_asked_to_bytes, vocabulary_given_from_bytes
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
        overlap: OverlapRule = OverlapRule.ERROR,
        samples: SampleRule = SampleRule.LABELLED,
        all_take_part: bool = True,
    ) -> None:
        if not clients:
            raise InvalidInput("clients: an alignment needs at least one party")
        check_names(clients, "clients", limit=MAX_CLIENTS)
        self._clients = tuple(clients)
        self._method = method
        self._slots = slots
        self._feature_slots = feature_slots
        self._seed = seed
        self._overlap = overlap
        self._samples = samples
        self._all_take_part = all_take_part
        self._step = 0
        self._listings: dict[ClientId, Listing] = {}
        self._lists: dict[ClientId, TaggedList] = {}

    @classmethod
    def of_run(cls, config: RunConfig, clients: Sequence[ClientId]) -> "AlignmentServer":
        """The alignment of a run with this configuration."""
        return cls(
            clients,
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
        assert phase == phase_name(self._step), "results of another phase than the one under way"
        self._check_all(phase, results)
        if self._step == 0:
            self._listings = {
                client: read_or_reject(client, listing_from_bytes, results[client]) for client in self._clients
            }
            self._lists = {client: listing.ids for client, listing in self._listings.items()}
        else:
            self._lists = {self._owner(client): self._raised(client, results[client]) for client in self._clients}
        if self._method is AlignmentMethod.HMAC or self._step == len(self._clients) - 1:
            return self._outcome()
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

    def _outcome(self) -> Alignment:
        holdings = [
            Holding(
                client=client,
                pseudonyms=np.frombuffer(self._lists[client].elements, dtype=f"S{ELEMENT_BYTES}"),
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
