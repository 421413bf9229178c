"""The records of a HyFDCA run, made up, and the book of one party after each of them."""

from collections.abc import Collection

from fenchel_client.algorithms.hyfdca.book import HyfdcaBook
from fenchel_client.algorithms.hyfdca.roundonrecord import RoundOnRecord
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.participation import due_active
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment, seed_to_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.hyfdca_records import left_out_to_bytes, round_choices_to_bytes
from support.layouts import client_layout

A, B, C = CLIENTS = tuple(ClientId(name) for name in "abc")
SIZES = {0: 30, 1: 30, 2: 10, 5: 20, 7: 30}
HELD = {0: (A, B), 1: (A, B), 2: (A, B), 5: (A, C)}
SAMPLES = 200


def layout(party: ClientId = A) -> ClientLayout:
    """A and B have three blocks in common, A and C one, A has one alone; C has no labels."""
    sizes = {block: size for block, size in SIZES.items() if party in HELD.get(block, (A,))}
    return client_layout(
        sizes,
        slots=30,
        party=party,
        clients=CLIENTS,
        label_holders={A, B},
        sample_count=SAMPLES,
        holders={block: held_by for block, held_by in HELD.items() if party in held_by},
        unopened=3,
    )


def settings(**values: object) -> HyfdcaSettings:
    return HyfdcaSettings.parse({"local": "theory", "certificate_every": 0, **values})


class RecordedRun:
    """The records of a run, and the book of one party after each of them."""

    def __init__(self, party: ClientId = A, *, chosen: HyfdcaSettings | None = None, own: ClientLayout | None = None):
        self.book = HyfdcaBook.first(settings() if chosen is None else chosen, layout(party) if own is None else own)
        self.round_id = 0
        self.attempt = 1
        self.stamps: dict[tuple[int, str, ClientId], Stamp] = {}
        self.take(LAYOUT, CLIENTS, seed_to_bytes(0))

    def take(self, phase: str, contributors: Collection[ClientId] = (), choices: bytes = b"") -> None:
        moment = Moment(self.attempt, RoundId(self.round_id), phase)
        stamps = {party: Stamp.fresh(party, moment, bytes(32)) for party in CLIENTS if party in contributors}
        self.book = self.book.after(StampedRecord(moment, stamps, choices))
        self.stamps |= {(self.round_id, phase, party): stamp for party, stamp in stamps.items()}

    def begin(
        self,
        available: Collection[ClientId] = CLIENTS,
        *,
        active: Collection[ClientId] | None = None,
        closing: bool = False,
        share: float = 1.0,
        proportional: bool = True,
        at: int | None = None,
    ) -> None:
        self.round_id = self.round_id + 1 if at is None else at
        if active is None:
            chosen = self.book.settings
            due = due_active(chosen, CLIENTS, RoundId(self.round_id))
            active = () if closing else due.intersection(available)
        working = frozenset(active)
        shares = {party: share for party in CLIENTS if party in working & {A, B}}
        choices = RoundChoices(frozenset(available), working, closing=closing, shares=shares, proportional=proportional)
        self.take(ROUND, choices=round_choices_to_bytes(choices, CLIENTS))

    def phase(self, phase: str, contributors: Collection[ClientId], *, left_out: Collection[ClientId] = ()) -> None:
        self.take(phase, contributors, left_out_to_bytes(left_out, CLIENTS))

    def origin(self, round_id: int, phase: str, party: ClientId, field: str) -> Origin:
        return Origin(self.stamps[round_id, phase, party], field)

    @property
    def current(self) -> RoundOnRecord:
        assert self.book.current is not None
        return self.book.current
