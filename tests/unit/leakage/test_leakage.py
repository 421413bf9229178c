"""Counting values by class, on messages made by hand."""

import struct

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from fenchel.v1 import alignment_pb2, averaging_pb2, ceremony_pb2, hyfdca_pb2, setup_pb2, vectors_pb2, visibility_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.leakage import Direction, Ledger, Sight, Tally, Visibility
from fenchel_common.wire.arrays import names_to_bytes, numbers_to_bytes
from fenchel_common.wire.counting import UNREADABLE, content_of, meaning_of, values_in
from fenchel_common.wire.parsing import MAX_ELEMENTS

INDIVIDUAL, AGGREGATE, CIPHERTEXT = Visibility.INDIVIDUAL, Visibility.AGGREGATE, Visibility.CIPHERTEXT
FORMAT = vectors_pb2.VectorFormat(slot_bits=64, bound=2.0)
NORTH, SOUTH = ClientId("north"), ClientId("south")


def encrypted(length: int) -> vectors_pb2.Vector:
    return vectors_pb2.Vector(
        encrypted=vectors_pb2.EncryptedVector(format=FORMAT, length=length, terms=1, ciphertexts=bytes(512))
    )


def plain(*values: int) -> vectors_pb2.Vector:
    packed = struct.pack(f"<{len(values)}q", *values)
    return vectors_pb2.Vector(plain=vectors_pb2.PlainVector(format=FORMAT, terms=1, values=packed))


def telling(tally: Tally) -> dict[Sight, int]:
    """The counts without those of settings and bookkeeping."""
    return {
        sight: count
        for sight, count in tally.items()
        if sight.visibility not in (Visibility.PUBLIC, Visibility.TRANSPORT)
    }


def dual_task(products: vectors_pb2.Vector) -> bytes:
    return hyfdca_pb2.HyfdcaDualTask(
        products=hyfdca_pb2.BlockVector(blocks=numbers_to_bytes([3]), vector=products)
    ).SerializeToString()


def test_a_vector_in_clear_counts_its_values_under_the_class_of_the_field_that_it_is_in() -> None:
    tally = values_in(hyfdca_pb2.HyfdcaDualTask, dual_task(plain(1, 2, 3)))
    assert telling(tally) == {Sight("HyfdcaDualTask.products", INDIVIDUAL, INDIVIDUAL): 3}
    assert tally[Sight("BlockVector.blocks", Visibility.PUBLIC, Visibility.PUBLIC)] == 1


def test_an_encrypted_vector_counts_as_ciphertext_that_holds_that_class() -> None:
    tally = values_in(hyfdca_pb2.HyfdcaDualTask, dual_task(encrypted(31)))
    assert telling(tally) == {Sight("HyfdcaDualTask.products", CIPHERTEXT, INDIVIDUAL): 31}


def test_the_bytes_of_ciphertext_are_those_of_encrypted_vectors() -> None:
    assert content_of(hyfdca_pb2.HyfdcaDualTask, dual_task(encrypted(31))).ciphertext_bytes == 512
    assert content_of(hyfdca_pb2.HyfdcaDualTask, dual_task(plain(1, 2, 3))).ciphertext_bytes == 0


def test_the_outermost_field_decides_for_what_lies_in_it() -> None:
    vector = averaging_pb2.AveragingVector(
        name="model", vector=hyfdca_pb2.BlockVector(blocks=numbers_to_bytes([0]), vector=plain(4, 5))
    )
    body = averaging_pb2.AveragingTask(
        state=averaging_pb2.AveragingState(
            kept=[vector],
            entries=[averaging_pb2.AveragingEntry(sums=[vector])],
        )
    ).SerializeToString()
    assert telling(values_in(averaging_pb2.AveragingTask, body)) == {
        Sight("AveragingState.kept", INDIVIDUAL, INDIVIDUAL): 2,
        Sight("AveragingEntry.sums", AGGREGATE, AGGREGATE): 2,
    }


def test_a_number_that_is_zero_counts_although_it_is_not_on_the_wire() -> None:
    empty = averaging_pb2.AveragingResult(measurement=averaging_pb2.AveragingMeasurement()).SerializeToString()
    assert telling(values_in(averaging_pb2.AveragingResult, empty)) == {
        Sight("AveragingMeasurement.loss_sum", AGGREGATE, AGGREGATE): 1,
        Sight("AveragingMeasurement.correct", AGGREGATE, AGGREGATE): 1,
        Sight("AveragingMeasurement.squared_norm", AGGREGATE, AGGREGATE): 1,
    }


def test_numbers_in_a_field_of_bytes_count_one_by_one() -> None:
    cohort = alignment_pb2.LayoutCohort(holders=numbers_to_bytes(range(5)), blocks=numbers_to_bytes(range(15)))
    tally = values_in(alignment_pb2.LayoutCohort, cohort.SerializeToString())
    assert tally[Sight("LayoutCohort.holders", AGGREGATE, AGGREGATE)] == 5
    assert tally[Sight("LayoutCohort.blocks", Visibility.PUBLIC, Visibility.PUBLIC)] == 15


def test_an_encrypted_vector_counts_no_more_values_than_its_ciphertexts_can_hold() -> None:
    boasting = values_in(hyfdca_pb2.HyfdcaDualTask, dual_task(encrypted(2**63)))
    assert boasting[Sight("HyfdcaDualTask.products", CIPHERTEXT, INDIVIDUAL)] == 2048 // 32


def message_with_pairs() -> type[Message]:
    """A message with a repeated field of individual pairs of numbers, which no message of the protocol has."""
    made = descriptor_pb2.FileDescriptorProto(
        name="pairs.proto", package="test.leakage", syntax="proto3", dependency=[visibility_pb2.DESCRIPTOR.name]
    )
    pair, holder = made.message_type.add(name="Pair"), made.message_type.add(name="Pairs")
    kinds = descriptor_pb2.FieldDescriptorProto
    fields = [pair.field.add(name=name, number=number, type=kinds.TYPE_DOUBLE) for number, name in ((1, "x"), (2, "y"))]
    for field in fields:
        field.label = kinds.LABEL_OPTIONAL
    fields.append(holder.field.add(name="pairs", number=1, type=kinds.TYPE_MESSAGE, type_name=".test.leakage.Pair"))
    fields[-1].label = kinds.LABEL_REPEATED
    for field in fields:
        field.options.Extensions[visibility_pb2.visibility] = visibility_pb2.VISIBILITY_INDIVIDUAL
    descriptor_pool.Default().AddSerializedFile(made.SerializeToString())
    found = descriptor_pool.Default().FindMessageTypeByName("test.leakage.Pairs")
    return message_factory.GetMessageClass(found)


def test_two_numbers_of_one_field_count_as_two() -> None:
    three_pairs = b"\x0a\x00" * 3
    assert values_in(message_with_pairs(), three_pairs) == {Sight("Pairs.pairs", INDIVIDUAL, INDIVIDUAL): 6}


def test_packed_bytes_count_by_their_width() -> None:
    listing = alignment_pb2.AlignmentListing(features=bytes(2 * 16), elements=bytes(32 * 7)).SerializeToString()
    tally = values_in(alignment_pb2.AlignmentListing, listing)
    assert telling(tally) == {
        Sight("AlignmentListing.elements", Visibility.PSEUDONYM, Visibility.PSEUDONYM): 7,
        Sight("AlignmentListing.features", Visibility.PSEUDONYM, Visibility.PSEUDONYM): 2,
    }


def test_names_in_bytes_count_by_their_ends() -> None:
    layout = alignment_pb2.FederationLayout(features=names_to_bytes(["a", "b"])).SerializeToString()
    assert telling(values_in(alignment_pb2.FederationLayout, layout)) == {
        Sight("FederationLayout.features", Visibility.PSEUDONYM, Visibility.PSEUDONYM): 2
    }


def test_a_message_inside_a_field_of_bytes_counts_as_that_message() -> None:
    model = hyfdca_pb2.HyfdcaState(model=hyfdca_pb2.BlockVector(blocks=numbers_to_bytes([1]), vector=encrypted(31)))
    part = setup_pb2.ModelPart(state=model.SerializeToString(), gap=0.5).SerializeToString()
    inside = {"ModelPart.state": hyfdca_pb2.HyfdcaState}
    assert telling(values_in(setup_pb2.ModelPart, part, inside=inside)) == {
        Sight("HyfdcaState.model", CIPHERTEXT, AGGREGATE): 31,
        Sight("ModelPart.gap", AGGREGATE, AGGREGATE): 1,
    }


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (setup_pb2.ModelPart, b"\xff\xff"),
        (ceremony_pb2.Introductions, b"\x0a\x00" * (MAX_ELEMENTS + 1)),
    ],
    ids=["no message", "too many elements"],
)
def test_a_body_that_is_not_its_message_is_on_record_as_unreadable(kind: type[Message], body: bytes) -> None:
    assert values_in(kind, body) == {Sight(UNREADABLE, Visibility.TRANSPORT, Visibility.TRANSPORT): 1}


def test_a_ledger_adds_up_and_comes_back_from_json() -> None:
    shown = Sight("HyfdcaPrimalResult.contribution", INDIVIDUAL, INDIVIDUAL)
    one, two = Ledger(), Ledger()
    one.add(NORTH, Direction.UP, Tally({shown: 3}))
    two.add(NORTH, Direction.UP, Tally({shown: 4}))
    two.add(SOUTH, Direction.DOWN, Tally({shown: 5}))
    one.add_all(two)
    assert one.tally(NORTH, Direction.UP) == {shown: 7}
    assert one.parties == (NORTH, SOUTH)
    assert Ledger.from_json(one.to_json()) == one
    assert two.tally(NORTH, Direction.UP) == {shown: 4}


@pytest.mark.parametrize("text", ["", "[]", '{"north": {"sideways": {}}}', '{"north": {"up": {"A.b": {"clear": 1}}}}'])
def test_a_damaged_ledger_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not readable"):
        Ledger.from_json(text)


def test_fields_have_words_where_a_person_must_judge_them() -> None:
    assert meaning_of("HyfdcaPrimalTask.alpha") == "dual variables of single samples"
    assert meaning_of("TaskKey.round") == ""
    assert meaning_of(UNREADABLE) == ""
