"""Dictionary attacks on the alignment: from pseudonyms back to ids, by trying all ids that there may be.

Each attack returns, for one party, the id at each position of its list, or None.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fenchel_client.alignment.ecdh import RingSecret, hash_to_curve
from fenchel_client.alignment.hmac_ids import keyed_pseudonyms
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import (
    listing_from_bytes,
    phase_step,
    raised_from_bytes,
    relay_from_bytes,
    split_elements,
)
from fenchel_deploy.attacks.views import Message, PartyView, Transcript

Guesses = tuple[str | None, ...]

ALIGNING: Final = "align_"
"""How the phases of the alignment begin."""


def lists_of(transcript: Transcript, owner: ClientId) -> list[tuple[bytes, ...]]:
    """A party's list after each time that a party raised it, as the server got it; the party itself raised it first."""
    clients = transcript.layout.clients
    lists = []
    for message in transcript.messages:
        if message.round_id == 0 and message.phase.startswith(ALIGNING):
            step = phase_step(message.phase)
            if clients[(clients.index(message.client) - step) % len(clients)] == owner:
                result = message.result
                listed = raised_from_bytes(result) if step else listing_from_bytes(result).ids
                lists.append(split_elements(listed.elements))
    return lists


def final_list(transcript: Transcript, owner: ClientId) -> tuple[bytes, ...]:
    """The pseudonyms of a party's samples that the server knows after the alignment."""
    return lists_of(transcript, owner)[-1]


def by_public_hashes(transcript: Transcript, victim: ClientId, dictionary: Sequence[str]) -> Guesses:
    """The server alone: tries every keyless or publicly keyed hash of each id on the list at each step of its way."""
    known: dict[bytes, str] = {}
    public = [b"", transcript.run.encode(), transcript.config.to_json().encode()]
    if transcript.key.public is not None:
        public += [transcript.key.public.to_bytes(), transcript.key.public.fingerprint]
    for sample in dictionary:
        encoded = sample.encode()
        known[hashlib.sha256(encoded).digest()] = sample
        known[hash_to_curve(sample, transcript.run)] = sample
        for secret in public:
            known[hmac.digest(secret, encoded, "sha256")] = sample
            if len(secret) >= 32:
                known[keyed_pseudonyms([sample], secret=secret, run=transcript.run)[0]] = sample
    tried = [_named(elements, known) for elements in lists_of(transcript, victim)]
    return tuple(next((guess for guess in guesses if guess is not None), None) for guesses in zip(*tried, strict=True))


def with_shared_secret(
    transcript: Transcript, accomplice: PartyView, victim: ClientId, dictionary: Sequence[str]
) -> Guesses:
    """`hmac`, the server and a party: the party's secret makes the pseudonym of any id."""
    pseudonyms = keyed_pseudonyms(dictionary, secret=accomplice.secrets.alignment_secret, run=transcript.run)
    return _named(final_list(transcript, victim), dict(zip(pseudonyms, dictionary, strict=True)))


def with_own_ids(transcript: Transcript, accomplice: PartyView, victim: ClientId) -> Guesses:
    """`ecdh`, the server and a party: the party's own ids, in the order in which it listed them, and nothing more.

    A further id would have to be raised by all the others, whose scalars neither has.
    """
    known = dict(zip(final_list(transcript, accomplice.name), accomplice.table.ids, strict=True))
    return _named(final_list(transcript, victim), known)


def by_what_passes(view: PartyView, run: RunId, dictionary: Sequence[str]) -> Mapping[str, Guesses]:
    """A curious party in the ring: tries all ids, under a scalar of its choice, on the lists that it is to raise."""
    own = RingSecret(run)
    points = [hash_to_curve(sample, run) for sample in dictionary]
    raised = split_elements(own.raise_elements(b"".join(points)))
    known = dict(zip(points, dictionary, strict=True)) | dict(zip(raised, dictionary, strict=True))
    return {
        message.phase: _named(split_elements(relayed + own.raise_elements(relayed)), known)
        for message, relayed in _relayed_to(view.messages)
    }


def _relayed_to(messages: Iterable[Message]) -> Iterable[tuple[Message, bytes]]:
    for message in messages:
        if message.round_id == 0 and message.phase.startswith(ALIGNING) and phase_step(message.phase) > 0:
            yield message, relay_from_bytes(message.task).elements


def _named(elements: Iterable[bytes], known: Mapping[bytes, str]) -> Guesses:
    return tuple(known.get(element) for element in elements)
