"""A party's half of the alignment: lists its own samples blindly, and raises the lists of the others."""

import secrets

from fenchel_client.alignment.ecdh import RingSecret
from fenchel_client.alignment.hmac_ids import keyed_pseudonyms
from fenchel_client.table import PartyTable
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import RunId
from fenchel_common.layout import MAX_FEATURES, MAX_NAMES_BYTES, MAX_PARTY_SAMPLES, check_names
from fenchel_common.wire.alignment import (
    SESSION_BYTES,
    AlignmentMethod,
    Listing,
    listing_to_bytes,
    opening_from_bytes,
    phase_step,
    raised_to_bytes,
    relay_from_bytes,
)
from fenchel_common.wire.arrays import names_to_bytes


class AlignmentClient:
    """Answers the alignment phases of one run; the same task gets the same answer however often it comes.

    Parameters
    ----------
    table
        This party's data; its rows are listed in the order of `PartyTable.ids`, and layouts count them in that order.
    run
        Separates the pseudonyms of this run from all others.
    method
        The method that this party agreed to; a start that asks for the other one is refused.
    shared_secret
        For `hmac` alone: the secret that all parties of the run hold and the server does not.
    """

    def __init__(
        self,
        table: PartyTable,
        *,
        run: RunId,
        method: AlignmentMethod,
        shared_secret: bytes | None = None,
    ) -> None:
        if (method is AlignmentMethod.HMAC) != (shared_secret is not None):
            raise InvalidInput("shared_secret: needed for the method hmac, and for that alone")
        check_names(table.features, "features", limit=MAX_FEATURES)
        if len(names_to_bytes(table.features)) > MAX_NAMES_BYTES:
            raise InvalidInput(f"features: all names together can have at most {MAX_NAMES_BYTES} bytes; shorten them")
        if len(table.ids) > MAX_PARTY_SAMPLES:
            raise InvalidInput(f"ids: a shard can have at most {MAX_PARTY_SAMPLES} rows")
        self._table = table
        self._run = run
        self._method = method
        self._shared_secret = shared_secret
        self._ring_secret = RingSecret(run)
        self._session = secrets.token_bytes(SESSION_BYTES)

    def answer(self, phase: str, body: bytes) -> bytes:
        """The result of one task."""
        if phase_step(phase) == 0:
            return self._list_own(body)
        return self._raise_other(body)

    def _list_own(self, body: bytes) -> bytes:
        asked = opening_from_bytes(body)
        if asked is not self._method:
            raise InvalidInput(f"method: the server asks for {asked.value}, this party agreed to {self._method.value}")
        if self._shared_secret is None:
            elements = self._ring_secret.blind_ids(self._table.ids)
        else:
            elements = b"".join(keyed_pseudonyms(self._table.ids, secret=self._shared_secret, run=self._run))
        return listing_to_bytes(
            Listing(
                session=self._session,
                features=self._table.features,
                has_labels=self._table.y is not None,
                elements=elements,
            )
        )

    def _raise_other(self, body: bytes) -> bytes:
        if self._method is not AlignmentMethod.ECDH:
            raise InvalidInput("phase: lists are raised only with the method ecdh")
        relay = relay_from_bytes(body)
        if relay.session != self._session:
            # A new process has a new secret; going on would give pseudonyms that match nobody else's.
            raise Refusal(
                "this party restarted during the alignment, which has to start afresh",
                public_reason="it restarted during the alignment",
            )
        return raised_to_bytes(self._ring_secret.raise_elements(relay.elements))
