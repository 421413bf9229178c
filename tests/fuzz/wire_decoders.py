"""The messages of set-up, alignment, labels, records and vectors, with a valid one of each."""

import functools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from google.protobuf.message import Message

from fenchel.v1 import (
    alignment_pb2,
    ceremony_pb2,
    federation_pb2,
    hyfdca_pb2,
    labels_pb2,
    setup_pb2,
    vectors_pb2,
)
from fenchel_client.crypto.introductions import fresh_key, introduce
from fenchel_client.crypto.keyfile import private_key_to_bytes
from fenchel_client.crypto.keywrap import unwrap, wrap
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto import paillier
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.moments import MOMENT_FIELDS
from fenchel_common.runconfig import RunConfig
from fenchel_common.scoresums import CalibrationRow, ScoreFigures
from fenchel_common.setup import (
    Introduction,
    KeyMade,
    KeyTake,
    LayoutResult,
    MaskSecrets,
    ModelPart,
    MomentSums,
    PartyRun,
    PartySetUp,
    RunSecrets,
    Spent,
)
from fenchel_common.wire import (
    arrays,
    blocks,
    ceremony,
    frames,
    labels,
    setup,
    vectors,
)
from fuzz.decoder import Decoder, parsed
from support.keys import cipher, private_key, run_key
from support.kits import make_federation
from support.masked import A, contribution, places
from support.tagged import encrypted as made

BITS = 2048
FORMAT = VectorFormat()
RUN = RunId("run-0123abcd")


@functools.lru_cache(maxsize=1)
def federation() -> dict[str, Kit]:
    """Kits of two parties and their server."""
    with TemporaryDirectory() as directory:
        return {name: Kit.load(path) for name, path in make_federation(Path(directory)).items()}


def of_message(kind: type[Message], function: Callable[..., object], seed: bytes, **bound: object) -> Decoder:
    """The decoder of a message that has been parsed already."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    return Decoder(name, lambda data: function(parsed(kind, data), **bound), (seed,), (function,), kind)


def of_bytes(kind: type[Message] | None, function: Callable[..., object], *seeds: bytes, **bound: object) -> Decoder:
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    return Decoder(name, functools.partial(function, **bound), seeds, (function,), kind)


def vector_decoders() -> list[Decoder]:
    slots = PlainCipher(BITS).slots
    values = np.linspace(-1.0, 1.0, 2 * slots)
    key, in_clear = private_key(BITS).public_key, RunKey.in_clear(BITS)
    encrypted = vectors.vector_to_bytes(made(cipher(BITS), values, FORMAT))
    plain = made(cipher(BITS).in_clear(), values, FORMAT)
    untagged = made(PlainCipher(BITS), values, FORMAT)
    masked = vectors.vector_to_bytes(contribution(A, values, places(2)))
    block_vector = blocks.block_vector_to_proto(BlockVector((2, 5), plain)).SerializeToString()
    allowed = {2: slots, 5: 4, 9: 1}
    ciphertexts = vectors_pb2.Vector.FromString(encrypted).encrypted.ciphertexts
    return [
        Decoder(
            "vectors.vector_from_proto (encrypted)",
            lambda data: vectors.vector_from_proto(parsed(vectors_pb2.Vector, data), RunKey.of(key)),
            (encrypted,),
            (vectors.vector_from_proto,),
            vectors_pb2.Vector,
        ),
        Decoder(
            "vectors.vector_from_proto (masked)",
            lambda data: vectors.vector_from_proto(parsed(vectors_pb2.Vector, data), RunKey.of_masks(BITS)),
            (masked,),
            (vectors.vector_from_proto,),
            vectors_pb2.Vector,
        ),
        Decoder(
            "vectors.vector_from_proto",
            lambda data: vectors.vector_from_proto(parsed(vectors_pb2.Vector, data), in_clear),
            (vectors.vector_to_bytes(plain), vectors.vector_to_bytes(untagged)),
            (vectors.vector_from_proto,),
            vectors_pb2.Vector,
        ),
        of_message(
            vectors_pb2.VectorFormat, vectors.format_from_proto, vectors.format_to_proto(FORMAT).SerializeToString()
        ),
        of_bytes(None, arrays.doubles_from_bytes, arrays.doubles_to_bytes(values), field="values"),
        of_message(
            hyfdca_pb2.BlockVector,
            blocks.block_vector_from_proto,
            block_vector,
            allowed=allowed,
            slots=slots,
            key=in_clear,
            formats=(FORMAT,),
            field="vector",
        ),
        of_bytes(None, blocks.block_ids_from_bytes, arrays.numbers_to_bytes([2, 9]), allowed=allowed, field="blocks"),
        of_message(
            alignment_pb2.BlockPositions,
            blocks.block_positions_from_proto,
            blocks.block_positions_to_proto({2: np.array([1, 0]), 5: np.array([2])}).SerializeToString(),
            most=3,
            field="layout",
        ),
        of_bytes(None, arrays.numbers_from_bytes, arrays.numbers_to_bytes([7, 0]), most=4, field="numbers"),
        of_bytes(None, arrays.names_from_bytes, arrays.names_to_bytes(["age", "größe"]), most=4, field="names"),
        of_bytes(None, PublicKey.from_bytes, key.to_bytes()),
        Decoder(
            "paillier.validate", functools.partial(paillier.validate, key), (ciphertexts,), (EncryptedVector.received,)
        ),
    ]


def label_decoders() -> list[Decoder]:
    slots, key = cipher(BITS).slots, run_key(BITS)
    marks = BlockVector((2, 5), made(cipher(BITS), np.linspace(0.0, 1.0, 2 * slots), FORMAT))
    given = (LayoutResult(b"preparation", marks), LayoutResult(b"preparation", None, seed=7))
    moments = tuple(BlockVector((2, 5), marks.vector) for _ in range(MOMENT_FIELDS))
    of_labels = made(cipher(BITS), np.arange(float(MOMENT_FIELDS)), FORMAT)
    first = LayoutResult(b"", None, seed=7, moments=moments, label_moments=of_labels)
    second, third = LayoutResult(b"", None, lengths=marks), LayoutResult(b"", None, counts=moments)
    results = [labels.layout_result_to_bytes(one) for one in (*given, first, second, third)]
    counts = labels.count_sums_to_bytes(moments, b"record")
    sums = labels.label_sums_to_bytes(marks, b"record")
    bound = {"blocks": {2, 5, 9}, "slots": slots, "key": key}
    return [
        of_bytes(labels_pb2.LayoutResult, labels.layout_result_from_bytes, *results, **bound, feature_blocks={2, 5, 9}),
        of_bytes(
            labels_pb2.MomentSums,
            labels.moment_sums_from_bytes,
            labels.moment_sums_to_bytes(MomentSums(moments, of_labels, b"record")),
            labels.moment_sums_to_bytes(MomentSums((), None, b"record")),
            **bound,
        ),
        of_bytes(
            labels_pb2.LengthSums,
            labels.length_sums_from_bytes,
            *(labels.length_sums_to_bytes(one, b"record") for one in (marks, None)),
            **bound,
        ),
        of_bytes(labels_pb2.CountSums, labels.count_sums_from_bytes, counts, **bound),
        of_bytes(labels_pb2.LabelSums, labels.label_sums_from_bytes, sums, **bound),
        of_bytes(
            labels_pb2.LabelsCompared,
            labels.labels_compared_from_bytes,
            *(labels.labels_compared_to_bytes(differ=differ) for differ in (True, False)),
        ),
    ]


def setup_decoders() -> list[Decoder]:
    kits = federation()
    config = RunConfig.from_mapping({"name": "trial", "settings": {"lambda": 0.5}})
    secrets = RunSecrets(private_key_to_bytes(private_key(BITS)), bytes(range(32)), bytes(32))
    masks = MaskSecrets(bytes(32), {ClientId("south"): bytes(range(32))})
    masked = RunSecrets(b"", bytes(range(32)), bytes(32), masks)
    public = private_key(BITS).public_key.to_bytes()
    figures = ScoreFigures(40, auc=0.875, auc_error=0.01, calibration=(CalibrationRow(12, 0.25, 0.5),))
    introductions = tuple(_introduction(kits[name]) for name in ("north", "south"))
    take = KeyTake(public, b"sealed", introductions)
    pairs = {ClientId("north"): bytes(range(32))}
    under_way = PartySetUp(
        RunId("run-1"), config, 2, bytes(32), take.introductions[0], masked, bytes(32), pairs, (bytes(32), bytes(32))
    )
    return [
        of_bytes(setup_pb2.RunTerms, setup.terms_from_bytes, setup.terms_to_bytes(config)),
        of_bytes(setup_pb2.Introduction, setup.introduction_from_bytes, setup.introduction_to_bytes(introductions[0])),
        of_bytes(
            setup_pb2.KeyMade,
            setup.key_made_from_bytes,
            setup.key_made_to_bytes(KeyMade(public, {ClientId("south"): b"sealed"})),
        ),
        of_bytes(setup_pb2.KeyTake, setup.key_take_from_bytes, setup.key_take_to_bytes(take)),
        of_bytes(setup_pb2.KeyTaken, setup.key_taken_from_bytes, setup.key_taken_to_bytes(bytes(32))),
        of_bytes(setup_pb2.RunSecrets, setup.secrets_from_bytes, *map(setup.secrets_to_bytes, (secrets, masked))),
        of_bytes(
            setup_pb2.PartyRun,
            setup.party_run_from_bytes,
            *(
                setup.party_run_to_bytes(PartyRun(config, kept, kept.digest(), b"layout", bytes(32)))
                for kept in (secrets, masked)
            ),
        ),
        of_bytes(setup_pb2.PartySetup, setup.party_setup_from_bytes, setup.party_setup_to_bytes(under_way)),
        of_bytes(
            setup_pb2.ModelPart,
            setup.model_part_from_bytes,
            setup.model_part_to_bytes(ModelPart(b"state", primal=0.5, dual=0.25, gap=0.25, figures=figures)),
            setup.model_part_to_bytes(ModelPart(b"state", primal=None, dual=None, gap=None)),
        ),
        of_bytes(
            setup_pb2.ModelRelease,
            setup.model_release_from_bytes,
            setup.model_release_to_bytes(np.array([0.5, -0.5])),
            features=2,
        ),
        of_bytes(
            setup_pb2.PhaseResult,
            setup.phase_result_from_bytes,
            setup.phase_result_to_bytes(b"body", Spent(0.5, 0.25, 1.0, 0.125, 1 << 20)),
        ),
        of_bytes(
            ceremony_pb2.Introductions,
            ceremony.introductions_from_bytes,
            ceremony.introductions_to_bytes(introductions),
        ),
        of_message(
            setup_pb2.Introduction, setup.introduction_from_proto, setup.introduction_to_bytes(introductions[1])
        ),
        of_message(
            federation_pb2.TaskKey,
            frames.key_from_proto,
            frames.key_to_proto(frames.TaskKey(RUN, RoundId(3), "local_dual", 1)).SerializeToString(),
        ),
        _wrapped_key(kits),
    ]


def _introduction(kit: Kit) -> Introduction:
    return introduce(kit, fresh_key().public_key(), run=RUN, terms=bytes(32))


def _wrapped_key(kits: dict[str, Kit]) -> Decoder:
    holder, recipient, ephemeral = kits["north"], kits["south"], fresh_key()
    wrapped = wrap(
        private_key_to_bytes(private_key(BITS)),
        recipient=introduce(recipient, ephemeral.public_key(), run=RUN, terms=bytes(32)),
        signer_key=holder.private_key(),
        signer_cert=holder.certificate,
        roster_fingerprint=holder.roster.fingerprint(),
        run=RUN,
        terms=bytes(32),
        introductions=bytes(32),
    )

    def read(data: bytes) -> bytes:
        return unwrap(
            ceremony.wrapped_key_from_bytes(data),
            recipient=recipient.client_id,
            recipient_key=ephemeral,
            authority=recipient.authority,
            roster=recipient.roster,
            run=RUN,
            terms=bytes(32),
            introductions=bytes(32),
        )

    covers = (unwrap, ceremony.wrapped_key_from_bytes)
    return Decoder("keywrap.unwrap", read, (ceremony.wrapped_key_to_bytes(wrapped),), covers, ceremony_pb2.WrappedKey)
