"""The records of a corrective run as one party is told them, and the book that it makes of them."""

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Final

import numpy as np
import pytest

from fenchel_client.algorithms.corrective.book import CorrectiveBook, Stamps
from fenchel_client.crypto.stamps import Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.corrective.messages import PrimalChoices, RoundChoices
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import NONCE_BYTES, ROUND, Moment
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.corrective import primal_choices_to_bytes, round_choices_to_bytes
from support.corrective import PHASES
from support.layouts import A, B, client_layout

C: Final = ClientId("c")
CLIENTS: Final = (A, B, C)
ALL: Final = frozenset(CLIENTS)
PAIR: Final = frozenset({A, B})
SETTINGS: Final = CorrectiveSettings.parse({"local": "corrective", "lambda": 0.5, "certificate_every": 2})


def layout(*, labelled: Collection[ClientId] = ALL) -> ClientLayout:
    """A's view: nine samples, of which it holds 2 alone, 2 with B and 1 with both; four features, one with B."""
    return client_layout(
        {0: 2, 1: 2, 2: 1},
        slots=2,
        clients=CLIENTS,
        label_holders=labelled,
        sample_count=9,
        holders={1: (A, B), 2: (A, B, C)},
        feature_blocks={0: np.array([0]), 1: np.array([1, 2]), 4: np.array([3])},
        feature_holders={1: (A, B), 4: (A, C)},
    )


class Story:
    """A book, and the records that it is told."""

    def __init__(self, own: ClientLayout | None = None, *, settings: CorrectiveSettings = SETTINGS) -> None:
        self.book = CorrectiveBook(layout() if own is None else own, settings)
        self._nonces = itertools.count(1)
        self.preparations = self.tell(0, LAYOUT, ALL)

    def tell(self, round_id: int, phase: str, among: Collection[ClientId] = (), choices: bytes = b"") -> Stamps:
        """One record more; these parties contributed."""
        moment = Moment(1, RoundId(round_id), phase)
        stamps = {
            client: Stamp(client, moment, b"view", next(self._nonces).to_bytes(NONCE_BYTES, "big"))
            for client in CLIENTS
            if client in among
        }
        self.book = self.book.after(StampedRecord(moment, stamps, choices))
        return stamps

    def begin(
        self,
        round_id: int,
        among: frozenset[ClientId] = ALL,
        *,
        collapse: bool = False,
        closing: bool = False,
        live_samples: int = 9,
    ) -> None:
        choices = RoundChoices(among, collapse, closing, live_samples)
        self.tell(round_id, ROUND, choices=round_choices_to_bytes(choices, CLIENTS))

    def primal(self, round_id: int, among: Collection[ClientId], *, accepted: bool, reported: bool) -> Stamps:
        return self.tell(round_id, "primal", among, primal_choices_to_bytes(PrimalChoices(accepted, reported)))

    def round(
        self,
        round_id: int,
        among: frozenset[ClientId] = ALL,
        *,
        collapse: bool | None = None,
        closing: bool = False,
        live_samples: int = 9,
        failing: Collection[ClientId] = (),
        accepted: bool = True,
        reported: bool = True,
    ) -> Mapping[str, Stamps]:
        """A whole round, the first one with a collapse; `failing` clients do not answer `primal`."""
        collapsing = round_id == 1 if collapse is None else collapse
        self.begin(round_id, among, collapse=collapsing, closing=closing, live_samples=live_samples)
        products, duals = (self.tell(round_id, phase, among) for phase in PHASES[:2])
        primals = self.primal(round_id, among - frozenset(failing), accepted=accepted, reported=reported)
        return {"products": products, "duals": duals, "primals": primals}


def refuses(tell: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tell()
