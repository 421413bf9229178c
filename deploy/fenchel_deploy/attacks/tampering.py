"""A server or a party that leaves the protocol: which departures the other side refuses, and which it cannot notice.

Every function returns, for each attempt by name, whether it was accepted.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from google.protobuf.message import Message as ProtoMessage

from fenchel.v1 import hyfdca_pb2
from fenchel_client.crypto.introductions import fresh_key, introduce
from fenchel_client.crypto.keyfile import private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keywrap import wrap
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
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
from fenchel_common.wire.records import round_result_from_bytes
from fenchel_common.wire.setup import (
    introduction_from_bytes,
    key_take_from_bytes,
    key_take_to_bytes,
    secrets_to_bytes,
    terms_to_bytes,
)
from fenchel_deploy.attacks.meddling import Meddler, Passing, Played, goes_on
from fenchel_deploy.attacks.recorded import Recorded
from fenchel_deploy.attacks.traces import ids_in
from fenchel_deploy.attacks.views import Oracle, Transcript

Outcomes = dict[str, bool]
LeftOut = Callable[[Mapping[str, Mapping[ClientId, bytes]]], Mapping[ClientId, str]]
"""Whom the real server leaves out of a round, and why, given the results of its phases."""

BY_FEATURE: Final = "model"
"""The field of HyFDCA's tasks that is by feature; all others are by sample."""


def tasks_of_others(recorded: Recorded) -> Outcomes:
    """A server that hands a party another's tasks, with sums of samples or of features that the party does not hold."""
    outcomes = {}
    for phase in (INNER_PRODUCT, LOCAL_DUAL, PRIMAL):
        for victim in recorded.transcript.layout.clients[1:]:
            played = Played(recorded)
            played.round()
            swap = _NeighboursTask(played.layout, phase, victim)
            taken = goes_on(played.round, swap)
            if swap.foreign:
                outcomes[f"{phase} to {victim}"] = taken
    return outcomes


class _NeighboursTask(Meddler):
    """Gives one party, in one phase, the task of a party before it whose blocks it does not hold.

    `foreign` is whether there was such a task.
    """

    def __init__(self, layout: FederationLayout, phase: str, victim: ClientId) -> None:
        self._phase, self._victim = phase, victim
        self._held = {
            False: layout.sample_index.of(victim).keys(),
            True: layout.feature_index.of(victim).keys(),
        }
        self._earlier: list[ProtoMessage] = []
        self.foreign = False

    def task(self, task: Passing) -> ProtoMessage:
        if task.phase != self._phase:
            return task.body
        if task.client == self._victim:
            others = [one for one in self._earlier if self._is_foreign(one)]
            self.foreign = bool(others)
            return others[-1] if others else task.body
        self._earlier.append(task.body)
        return task.body

    def _is_foreign(self, task: ProtoMessage) -> bool:
        return any(
            not set(ids_in(value.blocks)) <= self._held[field.name == BY_FEATURE]
            for field, value in task.ListFields()
            if isinstance(value, hyfdca_pb2.BlockVector)
        )


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
            body, _ = round_result_from_bytes(results[other], other)
            if _speaks_of_foreign_blocks(transcript, phase, body, liar):
                reasons = left_out({**earlier, phase: {**results, liar: results[other]}})
                outcomes[f"{phase} of {other} by {liar}"] = f"{phase}: rejected" not in reasons.get(liar, "")
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
    return {name: goes_on(ask, victim, 0, KEY_TAKE, key_take_to_bytes(take)) for name, take in attempts.items()}


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
    return {name: goes_on(ask, holder, 0, KEY_MAKE, introductions_to_bytes(listed)) for name, listed in lists.items()}


def _introduction_of(transcript: Transcript, client: ClientId) -> Introduction:
    introduced = next(message for message in transcript.of(client) if message.phase == INTRODUCE)
    return introduction_from_bytes(introduced.result)


def _key_for(transcript: Transcript, client: ClientId) -> KeyTake:
    return key_take_from_bytes(next(one for one in transcript.of(client) if one.phase == KEY_TAKE).task)


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
