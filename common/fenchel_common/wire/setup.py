"""The messages of a run's set-up and end as bytes."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import setup_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Certificate
from fenchel_common.identity.roster import MAX_PARTIES
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import (
    MAX_SIGNATURE_BYTES,
    POINT_BYTES,
    SECRET_BYTES,
    Company,
    Introduction,
    KeyMade,
    KeyTake,
    MaskSecrets,
    ModelPart,
    PartyRun,
    PartySetUp,
    RunSecrets,
    Spent,
)
from fenchel_common.wire.arrays import doubles_from_bytes, doubles_to_bytes
from fenchel_common.wire.parsing import B, parsed_message, split_message
from fenchel_common.wire.scorefigures import score_figures_from_proto, score_figures_to_proto

PARTY_RUN_FORMAT = 5
"""The version of a party's record of a run."""


def terms_to_bytes(config: RunConfig) -> bytes:
    return setup_pb2.RunTerms(config=config.to_json()).SerializeToString()


def terms_from_bytes(data: bytes) -> RunConfig:
    return RunConfig.from_json(parsed_message(setup_pb2.RunTerms, data).config)


def introduction_to_proto(introduction: Introduction) -> setup_pb2.Introduction:
    return setup_pb2.Introduction(
        certificate=introduction.certificate.der(),
        ephemeral_key=introduction.ephemeral_key,
        signature=introduction.signature,
    )


def introduction_from_proto(message: setup_pb2.Introduction) -> Introduction:
    """Reads an introduction, and verifies neither its certificate nor its signature."""
    certificate = Certificate.from_der(message.certificate)
    if len(message.ephemeral_key) != POINT_BYTES:
        raise InvalidInput(f"introduction: ephemeral_key: must have {POINT_BYTES} bytes")
    if not 0 < len(message.signature) <= MAX_SIGNATURE_BYTES:
        raise InvalidInput(f"introduction: signature: must have 1 to {MAX_SIGNATURE_BYTES} bytes")
    return Introduction(certificate, message.ephemeral_key, message.signature)


def introductions_from_protos(messages: Sequence[setup_pb2.Introduction]) -> tuple[Introduction, ...]:
    """The introductions of a set-up, as `introduction_from_proto` reads them."""
    if len(messages) > MAX_PARTIES:
        raise InvalidInput(f"introductions: {len(messages)} of them; a roster names at most {MAX_PARTIES} parties")
    return tuple(introduction_from_proto(message) for message in messages)


def introduction_to_bytes(introduction: Introduction) -> bytes:
    return introduction_to_proto(introduction).SerializeToString()


def introduction_from_bytes(data: bytes) -> Introduction:
    return introduction_from_proto(parsed_message(setup_pb2.Introduction, data))


def key_made_to_bytes(made: KeyMade) -> bytes:
    sealed = [setup_pb2.SealedSecrets(party=party, wrapped=wrapped) for party, wrapped in made.sealed.items()]
    return setup_pb2.KeyMade(public_key=made.public_key, sealed=sealed).SerializeToString()


def key_made_from_bytes(data: bytes) -> KeyMade:
    message = parsed_message(setup_pb2.KeyMade, data)
    sealed = {ClientId(entry.party): entry.wrapped for entry in message.sealed}
    if len(sealed) != len(message.sealed):
        raise InvalidInput("sealed: a party is named twice")
    return KeyMade(message.public_key, sealed)


def key_take_to_bytes(take: KeyTake) -> bytes:
    listed = [introduction_to_proto(introduction) for introduction in take.introductions]
    message = setup_pb2.KeyTake(public_key=take.public_key, wrapped=take.wrapped, introductions=listed)
    return message.SerializeToString()


def key_take_from_bytes(data: bytes) -> KeyTake:
    message = parsed_message(setup_pb2.KeyTake, data)
    return KeyTake(message.public_key, message.wrapped, introductions_from_protos(message.introductions))


def key_taken_to_bytes(fingerprint: bytes) -> bytes:
    return setup_pb2.KeyTaken(fingerprint=fingerprint).SerializeToString()


def key_taken_from_bytes(data: bytes) -> bytes:
    return parsed_message(setup_pb2.KeyTaken, data).fingerprint


def secrets_to_bytes(secrets: RunSecrets) -> bytes:
    return _secrets_to_proto(secrets).SerializeToString()


def secrets_from_bytes(data: bytes) -> RunSecrets:
    return _secrets_from_proto(parsed_message(setup_pb2.RunSecrets, data))


def party_run_to_bytes(kept: PartyRun) -> bytes:
    return setup_pb2.PartyRun(
        config=kept.config.to_json(),
        secrets=None if kept.secrets is None else _secrets_to_proto(kept.secrets),
        key_digest=kept.key_digest,
        layout=kept.layout,
        view=kept.view,
        setups=kept.setups,
        refusals=kept.refusals,
        attempt=kept.attempt,
        round=kept.round,
        view_before=kept.view_before,
        scaling=kept.scaling,
        vocabulary=kept.vocabulary,
        labels=kept.labels,
        companies=[setup_pb2.Company(state=one.state, members=one.members) for one in kept.companies],
        changes_of_company=kept.changes_of_company,
        format=PARTY_RUN_FORMAT,
    ).SerializeToString()


def party_run_from_bytes(data: bytes) -> PartyRun:
    """Reads a record that this party wrote."""
    message = parsed_message(setup_pb2.PartyRun, data, limit=None)
    if message.format != PARTY_RUN_FORMAT:
        raise InvalidInput(
            "the file that this party keeps of the run was written by another version of Fenchel; end the run with "
            "that version, or delete the file and start the run under a new name"
        )
    return PartyRun(
        config=RunConfig.from_json(message.config),
        secrets=_secrets_from_proto(message.secrets) if message.HasField("secrets") else None,
        key_digest=message.key_digest,
        layout=message.layout,
        view=message.view,
        setups=message.setups,
        refusals=message.refusals,
        attempt=message.attempt,
        round=RoundId(message.round),
        view_before=message.view_before,
        scaling=message.scaling,
        vocabulary=message.vocabulary,
        labels=message.labels,
        companies=tuple(Company(one.state, one.members) for one in message.companies),
        changes_of_company=message.changes_of_company,
    )


def party_setup_to_bytes(kept: PartySetUp) -> bytes:
    raising, remaining = kept.exponents
    return setup_pb2.PartySetup(
        run=kept.run,
        config=kept.config.to_json(),
        attempt=kept.attempt,
        data=kept.data,
        introduction=introduction_to_proto(kept.introduction),
        secrets=_secrets_to_proto(kept.secrets),
        introductions=kept.introductions,
        pairs=_pairs_to_protos(kept.pairs),
        raising=raising,
        remaining=remaining,
        start=kept.start,
        names=kept.names,
    ).SerializeToString()


def party_setup_from_bytes(data: bytes) -> PartySetUp:
    """Reads a record that this party wrote."""
    message = parsed_message(setup_pb2.PartySetup, data, limit=None)
    return PartySetUp(
        run=RunId(message.run),
        config=RunConfig.from_json(message.config),
        attempt=message.attempt,
        data=message.data,
        introduction=introduction_from_proto(message.introduction),
        secrets=_secrets_from_proto(message.secrets),
        introductions=message.introductions,
        pairs=_pairs_from_protos(message.pairs),
        exponents=(message.raising, message.remaining),
        start=message.start,
        names=message.names,
    )


def model_part_to_bytes(part: ModelPart) -> bytes:
    message = setup_pb2.ModelPart(
        state=part.state,
        primal=part.primal,
        dual=part.dual,
        gap=part.gap,
        figures=score_figures_to_proto(part.figures),
    )
    return message.SerializeToString()


def model_part_from_bytes(data: bytes) -> ModelPart:
    message = parsed_message(setup_pb2.ModelPart, data)
    if not np.isfinite((message.primal, message.dual, message.gap)).all():
        raise InvalidInput("primal, dual, gap: must be finite")
    return ModelPart(
        state=message.state,
        primal=message.primal if message.HasField("primal") else None,
        dual=message.dual if message.HasField("dual") else None,
        gap=message.gap if message.HasField("gap") else None,
        figures=score_figures_from_proto(message.figures, "figures") if message.HasField("figures") else None,
    )


def model_release_to_bytes(weights: NDArray[np.float64]) -> bytes:
    return setup_pb2.ModelRelease(weights=doubles_to_bytes(weights)).SerializeToString()


def model_release_from_bytes(data: bytes, *, features: int, classes: int = 0) -> NDArray[np.float64]:
    """Reads a party's weights, one for each of its `features` features; none if the party does not release them.

    In a run of several classes, each feature has a weight for each of them, in a row of the result.
    """
    weights = doubles_from_bytes(parsed_message(setup_pb2.ModelRelease, data).weights, field="weights")
    due = features * max(1, classes)
    if weights.shape not in ((due,), (0,)) or not np.isfinite(weights).all():
        raise InvalidInput(f"weights: {due} finite numbers are due, or none")
    return weights.reshape(-1, classes) if classes else weights


def phase_result_to_bytes(body: bytes, spent: Spent) -> bytes:
    message = setup_pb2.PhaseResult(
        body=body,
        encrypt_s=spent.encrypt_s,
        decrypt_s=spent.decrypt_s,
        compute_s=spent.compute_s,
        serialise_s=spent.serialise_s,
        peak_memory_bytes=spent.peak_memory_bytes,
        cpu_s=spent.cpu_s,
    )
    return message.SerializeToString()


def phase_result_from_bytes(data: B) -> tuple[B, Spent]:
    message, body = split_message(setup_pb2.PhaseResult, data, "body")
    spent = Spent(
        encrypt_s=message.encrypt_s,
        decrypt_s=message.decrypt_s,
        compute_s=message.compute_s,
        serialise_s=message.serialise_s,
        peak_memory_bytes=message.peak_memory_bytes,
        cpu_s=message.cpu_s,
    )
    seconds = (spent.encrypt_s, spent.decrypt_s, spent.compute_s, spent.serialise_s, spent.cpu_s)
    if not all(np.isfinite(part) and part >= 0.0 for part in seconds):
        raise InvalidInput("the seconds that a party reports are finite and not negative")
    return body, spent


def _secrets_to_proto(secrets: RunSecrets) -> setup_pb2.RunSecrets:
    return setup_pb2.RunSecrets(
        private_key=secrets.private_key,
        alignment_secret=secrets.alignment_secret,
        tag_secret=secrets.tag_secret,
        masks=None if secrets.masks is None else _masks_to_proto(secrets.masks),
    )


def _masks_to_proto(masks: MaskSecrets) -> setup_pb2.MaskSecrets:
    return setup_pb2.MaskSecrets(group_secret=masks.group_secret, pairs=_pairs_to_protos(masks.pairs))


def _pairs_to_protos(pairs: Mapping[ClientId, bytes]) -> list[setup_pb2.PairKey]:
    return [setup_pb2.PairKey(party=party, key=key) for party, key in pairs.items()]


def _pairs_from_protos(messages: Iterable[setup_pb2.PairKey]) -> dict[ClientId, bytes]:
    return {ClientId(pair.party): pair.key for pair in messages}


def _secrets_from_proto(message: setup_pb2.RunSecrets) -> RunSecrets:
    if any(len(secret) != SECRET_BYTES for secret in (message.alignment_secret, message.tag_secret)):
        raise InvalidInput(f"alignment_secret, tag_secret: must have {SECRET_BYTES} bytes each")
    masks = None
    if message.HasField("masks"):
        masks = MaskSecrets(message.masks.group_secret, _pairs_from_protos(message.masks.pairs))
    return RunSecrets(message.private_key, message.alignment_secret, message.tag_secret, masks)
