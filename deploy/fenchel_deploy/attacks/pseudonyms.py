"""Dictionary attacks on the alignment: from pseudonyms back to ids, by trying all ids that there may be.

Each attack returns, for one party, the id at each position of its list, or None.
"""

import hashlib
import hmac
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fenchel_client.alignment.blinders import opened_piece
from fenchel_client.alignment.hmac_ids import keyed_pseudonyms
from fenchel_common.crypto.curve import fresh_exponent, hash_to_curve, multiplied
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import (
    listing_from_bytes,
    phase_name,
    phase_step,
    raised_from_bytes,
    relay_from_bytes,
    split_elements,
)
from fenchel_common.wire.pieces import Piece, is_blinding_phase, work_from_bytes, worked_from_bytes
from fenchel_deploy.attacks.views import Message, PartyView, Transcript

Guesses = tuple[str | None, ...]

ALIGNING: Final = "align_"
"""How the phases of the alignment begin."""


def lists_of(transcript: Transcript, owner: ClientId) -> list[tuple[bytes, ...]]:
    """A party's list after each step of its way, as the server got it; the party itself listed it first.

    A list that is sealed for a party is left out. The last list has the pseudonyms.
    """
    if transcript.config.alignment == "blinders":
        return _past_blinders(transcript, owner)
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


def _past_blinders(transcript: Transcript, owner: ClientId) -> list[tuple[bytes, ...]]:
    """The steps of a list past the blinding parties, and the list as the server finishes it; lists have one piece."""
    origin, finisher = transcript.layout.clients.index(owner), b""
    lists: list[tuple[bytes, ...]] = []
    for message in transcript.messages:
        if message.round_id == 0 and message.phase == phase_name(0):
            pieces = listing_from_bytes(message.result).pieces
        elif message.round_id == 0 and is_blinding_phase(message.phase):
            pieces, given = worked_from_bytes(message.result)
            finisher = given if given and message.client == owner else finisher
        else:
            continue
        lists += [split_elements(piece.elements) for piece in pieces if piece.origin == origin and piece.elements]
    if finisher:
        lists.append(split_elements(multiplied(lists[-1], finisher)))
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
    """The server and a party: the party's own ids, in the order in which it listed them, and nothing more.

    A further id would have to be raised by parties whose exponents neither has.
    """
    known = dict(zip(final_list(transcript, accomplice.name), accomplice.table.ids, strict=True))
    return _named(final_list(transcript, victim), known)


def with_blinders(
    transcript: Transcript, blinders: Sequence[PartyView], victim: ClientId, dictionary: Sequence[str]
) -> Guesses:
    """`blinders`, the server and some blinding parties: raises all ids to every product of the exponents they know.

    The results are tried on the victim's list at each step of its way, and as the server finishes it.
    """
    exponents = [view.setup.exponents[0] for view in blinders]
    known: dict[bytes, str] = {}
    for chosen in itertools.chain.from_iterable(
        itertools.combinations(exponents, count) for count in range(len(exponents) + 1)
    ):
        raised = [hash_to_curve(sample, transcript.run) for sample in dictionary]
        for exponent in chosen:
            raised = list(split_elements(multiplied(raised, exponent)))
        known.update(zip(raised, dictionary, strict=True))
    tried = [_named(elements, known) for elements in lists_of(transcript, victim)]
    tried += [_named(elements, known) for view in blinders for elements in _opened_by(view, transcript, victim)]
    return tuple(next((guess for guess in guesses if guess is not None), None) for guesses in zip(*tried, strict=True))


def by_what_passes(view: PartyView, transcript: Transcript, dictionary: Sequence[str]) -> Mapping[str, Guesses]:
    """A curious party: tries all ids, plain and under its exponent, on the lists that it is to raise."""
    exponent = view.setup.exponents[0] or fresh_exponent()
    points = [hash_to_curve(sample, transcript.run) for sample in dictionary]
    raised = split_elements(multiplied(points, exponent))
    known = dict(zip(points, dictionary, strict=True)) | dict(zip(raised, dictionary, strict=True))
    found = {}
    for message in view.messages:
        if relayed := _relayed(view, transcript, message):
            found[message.phase] = _named((*relayed, *split_elements(multiplied(relayed, exponent))), known)
    return found


def _relayed(view: PartyView, transcript: Transcript, message: Message) -> tuple[bytes, ...]:
    """The elements that a task brings to a party, and those that were sealed for it."""
    if message.round_id == 0 and is_blinding_phase(message.phase):
        pieces = work_from_bytes(message.task)
        clients = transcript.layout.clients
        sealed = [_opened(view, transcript.run, clients[piece.origin], piece) for piece in pieces if piece.sealed]
        return split_elements(b"".join([*(piece.elements for piece in pieces), *sealed]))
    if message.round_id == 0 and message.phase.startswith(ALIGNING) and phase_step(message.phase) > 0:
        return split_elements(relay_from_bytes(message.task).elements)
    return ()


def _opened_by(view: PartyView, transcript: Transcript, victim: ClientId) -> list[tuple[bytes, ...]]:
    """The lists of the victim that were sealed for a party, and that it opened."""
    origin = transcript.layout.clients.index(victim)
    return [
        split_elements(_opened(view, transcript.run, victim, piece))
        for message in view.messages
        if message.round_id == 0 and is_blinding_phase(message.phase)
        for piece in work_from_bytes(message.task)
        if piece.origin == origin and piece.sealed
    ]


def _opened(view: PartyView, run: RunId, owner: ClientId, piece: Piece) -> bytes:
    return opened_piece(piece, owner, pair=view.setup.pairs[owner], run=run)


def _named(elements: Iterable[bytes], known: Mapping[bytes, str]) -> Guesses:
    return tuple(known.get(element) for element in elements)
