"""A server or a party that leaves the protocol: which departures the other side refuses, and which it cannot notice.

Every function returns, for each attempt by name, whether it was accepted.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_client.crypto.introductions import fresh_key, introduce
from fenchel_client.crypto.keyfile import private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keywrap import wrap
from fenchel_common.algorithms.dual import INNER_PRODUCT, PRIMAL
from fenchel_common.errors import FenchelError
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.setup import (
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    SECRET_BYTES,
    Introduction,
    KeyTake,
    RunSecrets,
    introductions_digest,
)
from fenchel_common.wire.ceremony import introductions_to_bytes, wrapped_key_from_bytes, wrapped_key_to_bytes
from fenchel_common.wire.setup import (
    introduction_from_bytes,
    key_take_from_bytes,
    key_take_to_bytes,
    secrets_to_bytes,
    terms_to_bytes,
)
from fenchel_deploy.attacks.traces import ids_in
from fenchel_deploy.attacks.views import Message, Oracle, Transcript

Outcomes = dict[str, bool]
LeftOut = Callable[[Mapping[str, Mapping[ClientId, bytes]]], Mapping[ClientId, str]]
"""Whom the real server leaves out of a round, and why, given the results of its phases."""

STATE_TASKS: Final[Mapping[str, type[hyfdca_pb2.HyfdcaPrimalTask | hyfdca_pb2.HyfdcaProductTask]]] = {
    PRIMAL: hyfdca_pb2.HyfdcaPrimalTask,
    INNER_PRODUCT: hyfdca_pb2.HyfdcaProductTask,
}
"""Tasks that bring a party's state up to date."""


def went_through(attempt: Callable[..., object], *given: object) -> bool:
    try:
        attempt(*given)
    except FenchelError:
        return False
    return True


def tasks_of_others(transcript: Transcript, ask: Oracle) -> Outcomes:
    """A server that hands a party another's tasks: blocks of samples or of features that it does not hold."""
    outcomes = {}
    for message in _telling_tasks(transcript):
        for other in transcript.layout.clients:
            if _has_foreign_blocks(transcript, message, other):
                name = f"{message.phase} of {message.client} to {other}"
                outcomes[name] = went_through(ask, other, message.round_id, message.phase, message.task)
    return outcomes


def results_of_others(transcript: Transcript, left_out: LeftOut) -> Outcomes:
    """Each party sends, in the first round, another party's result about blocks that the sender does not hold."""
    given: dict[str, dict[ClientId, bytes]] = {}
    for message in transcript.messages:
        if message.round_id == 1:
            given.setdefault(message.phase, {})[message.client] = message.result
    outcomes = {}
    for position, (phase, results) in enumerate(given.items()):
        earlier = dict(list(given.items())[:position])
        for liar, other in itertools.permutations(results, 2):
            if _speaks_of_foreign_blocks(transcript, phase, results[other], liar):
                reasons = left_out({**earlier, phase: {**results, liar: results[other]}})
                outcomes[f"{phase} of {other} by {liar}"] = f"{phase}: rejected" not in reasons.get(liar, "")
    return outcomes


def replayed_duals(transcript: Transcript, ask: Oracle, client: ClientId) -> Outcomes:
    """Dual variables of the first round, which the party once had, instead of those of the last round."""
    earlier, later = _primal_tasks(transcript, client)
    return {"an earlier round": _taken(ask, client, later, _with_duals(later, _duals(earlier)))}


def foreign_duals(transcript: Transcript, other: Transcript, ask: Oracle, client: ClientId) -> Outcomes:
    """Dual variables from another run: as they are, and passed off as made under this run's key."""
    _, mine = _primal_tasks(transcript, client)
    _, theirs = _primal_tasks(other, client)
    vector = _duals(theirs)
    outcomes = {"another run": _taken(ask, client, mine, _with_duals(mine, vector))}
    own = _duals(mine)
    if own.WhichOneof("kind") == "encrypted" and vector.WhichOneof("kind") == "encrypted":
        vector.encrypted.key_fingerprint = own.encrypted.key_fingerprint
        outcomes["another run, relabelled"] = _taken(ask, client, mine, _with_duals(mine, vector))
    return outcomes


def swapped_keys(
    transcript: Transcript, earlier_run: Transcript, ask: Oracle, victim: ClientId, *, server: Kit, accomplice: Kit
) -> Outcomes:
    """The server hands `victim` keys that the key holder did not make for it in this set-up."""
    genuine = _key_for(transcript, victim)
    blob = wrapped_key_from_bytes(genuine.wrapped)
    private = generate_private_key(transcript.config.key.bits)
    secret = secrets_to_bytes(RunSecrets(private_key_to_bytes(private), bytes(SECRET_BYTES), bytes(SECRET_BYTES)))
    # A party takes a key once in a set-up. So the server begins another one with it.
    introduced = introduction_from_bytes(ask(victim, 0, INTRODUCE, terms_to_bytes(transcript.config)))
    listed = tuple(introduced if one.certificate.common_name == victim else one for one in genuine.introductions)

    def forged(signer: Kit) -> bytes:
        wrapped = wrap(
            secret,
            recipient=introduced,
            signer_key=signer.private_key(),
            signer_cert=signer.certificate,
            roster_fingerprint=blob.roster_fingerprint,
            run=transcript.run,
            terms=blob.terms,
            introductions=introductions_digest(listed),
        )
        return wrapped_key_to_bytes(wrapped)

    another = next(name for name in transcript.layout.clients[1:] if name != victim)
    altered = bytearray(genuine.wrapped)
    altered[-100] ^= 1
    mine = private.public_key.to_bytes()
    attempts = {
        "the server's own key, under its certificate": KeyTake(mine, forged(server), listed),
        "an accomplice's key, under its certificate": KeyTake(mine, forged(accomplice), listed),
        "what was sealed for another party": replace(_key_for(transcript, another), introductions=listed),
        "what was sealed for another run": replace(_key_for(earlier_run, victim), introductions=listed),
        "what was sealed in the set-up before": genuine,
        "what was sealed in the set-up before, beside today's introductions": replace(genuine, introductions=listed),
        "one bit altered": KeyTake(genuine.public_key, bytes(altered), listed),
        "another public key beside the blob": KeyTake(mine, genuine.wrapped, listed),
    }
    return {name: went_through(ask, victim, 0, KEY_TAKE, key_take_to_bytes(take)) for name, take in attempts.items()}


def extra_recipients(transcript: Transcript, ask: Oracle, *, server: Kit, stranger: Kit) -> Outcomes:
    """The server asks the key holder to seal the key for someone who is not on the roster."""
    holder = transcript.layout.clients[0]
    introduced = [_introduction_of(transcript, client) for client in transcript.layout.clients]
    terms = transcript.config.digest()
    forged = {
        name: introduce(kit, fresh_key().public_key(), run=transcript.run, terms=terms)
        for name, kit in {"the server": server, "a stranger": stranger}.items()
    }
    lists = {name: [*introduced, one] for name, one in forged.items()}
    lists["a key of the server's under a party's certificate"] = [
        *introduced[:-1],
        replace(introduced[-1], ephemeral_key=forged["the server"].ephemeral_key),
    ]
    return {
        name: went_through(ask, holder, 0, KEY_MAKE, introductions_to_bytes(listed)) for name, listed in lists.items()
    }


def _introduction_of(transcript: Transcript, client: ClientId) -> Introduction:
    introduced = next(message for message in transcript.of(client) if message.phase == INTRODUCE)
    return introduction_from_bytes(introduced.result)


def _key_for(transcript: Transcript, client: ClientId) -> KeyTake:
    return key_take_from_bytes(next(one for one in transcript.of(client) if one.phase == KEY_TAKE).task)


def _telling_tasks(transcript: Transcript) -> list[Message]:
    """The last task that carries a vector, for each party and phase."""
    chosen = {}
    for message in transcript.messages:
        task = STATE_TASKS.get(message.phase)
        if message.round_id > 0 and task is not None:
            state = task.FromString(message.task).state
            if state.HasField("alpha") or state.HasField("model"):
                chosen[message.phase, message.client] = message
    return list(chosen.values())


def _has_foreign_blocks(transcript: Transcript, message: Message, other: ClientId) -> bool:
    layout, state = transcript.layout, STATE_TASKS[message.phase].FromString(message.task).state
    features, samples = layout.feature_index.of(other).keys(), layout.sample_index.of(other).keys()
    return not set(ids_in(state.alpha.blocks)) <= samples or not set(ids_in(state.model.blocks)) <= features


def _speaks_of_foreign_blocks(transcript: Transcript, phase: str, result: bytes, liar: ClientId) -> bool:
    layout = transcript.layout
    if phase == PRIMAL:
        told = hyfdca_pb2.HyfdcaPrimalResult.FromString(result).contribution.blocks
        return not set(ids_in(told)) <= layout.feature_index.of(liar).keys()
    if phase == INNER_PRODUCT:
        told = hyfdca_pb2.HyfdcaProductResult.FromString(result).products.blocks
    else:
        told = hyfdca_pb2.HyfdcaDualResult.FromString(result).changes.blocks
    return not set(ids_in(told)) <= layout.sample_index.of(liar).keys()


def _primal_tasks(transcript: Transcript, client: ClientId) -> tuple[Message, Message]:
    """The first and the last `primal` task of a party that carry dual variables."""
    tasks = [one for one in transcript.of(client) if one.phase == PRIMAL and _primal(one).state.HasField("alpha")]
    return tasks[0], tasks[-1]


def _primal(message: Message) -> hyfdca_pb2.HyfdcaPrimalTask:
    return hyfdca_pb2.HyfdcaPrimalTask.FromString(message.task)


def _duals(message: Message) -> vectors_pb2.Vector:
    return _primal(message).state.alpha.vector


def _with_duals(message: Message, vector: vectors_pb2.Vector) -> bytes:
    task = _primal(message)
    task.state.alpha.vector.CopyFrom(vector)
    return task.SerializeToString()


def _taken(ask: Oracle, client: ClientId, message: Message, body: bytes) -> bool:
    """Whether the party accepted the task."""
    return went_through(ask, client, message.round_id, PRIMAL, body)
