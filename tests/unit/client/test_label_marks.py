"""The comparison of labels between its two halves, in clear and under a small key."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import labels_pb2
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_client.labels import LabelComparison, label_marks
from fenchel_client.table import PartyTable
from fenchel_client.transcript import StampedRecord, Transcript
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto import paillier
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, LabelsDiffer, Refusal, ResultRejected
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.layout import MAX_CLIENTS
from fenchel_common.records import Given, Moment, Record, seed_to_bytes
from fenchel_common.setup import LAYOUT, LayoutResult
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.labels import label_sums_to_bytes, labels_compared_to_bytes, layout_result_to_bytes
from fenchel_common.wire.records import record_from_bytes, record_to_bytes
from fenchel_deploy.inprocess.layouts import KEY_BITS, aligned, table_of
from fenchel_server.labels import check_labels, label_tasks, read_layout_results
from support.keys import SMALL_BITS, cipher, private_key, run_key, tags
from support.layouts import A, B, client_layout
from support.simulation import read_unchecked

RUN = RunId("run-1")
SECRET = bytes(range(32))
FIRST, SECOND, THIRD = (ClientId(f"party-{number:02d}") for number in range(3))
KINDS: dict[str, tuple[Cipher, RunKey]] = {
    "plain": (PlainCipher(KEY_BITS, tags()), RunKey.in_clear(KEY_BITS)),
    "paillier": (cipher(2 * SMALL_BITS), run_key(2 * SMALL_BITS)),
}
MOMENT, SEED = Moment(1, RoundId(0), LAYOUT), 1


def shard(feature: str, labels: Sequence[float] | None, ids: Sequence[str] | None = None) -> Shard:
    named = tuple(ids or (f"sample-{row}" for row in range(len(labels or ()))))
    return Shard(named, (feature,), np.ones((len(named), 1)), None if labels is None else np.array(labels))


@dataclass(frozen=True)
class Listening:
    rounds_done = 0

    def company(self, _phase: str) -> None:
        return None

    def after(self, _record: StampedRecord) -> "Listening":
        return self


class Compared:
    """A party with its labels, its seal and the records that it has taken."""

    def __init__(self, layout: ClientLayout, table: PartyTable, cipher: Cipher, key: RunKey) -> None:
        self.seal = Seal(Pads(SECRET))
        self.transcript = Transcript(
            bytes(32),
            Listening(),
            party=layout.party,
            clients=layout.clients,
            key=SECRET,
            seed=SEED,
            attempt=MOMENT.attempt,
        )
        self.labels = LabelComparison(layout, table, cipher=cipher, key=key, seal=self.seal, secret=SECRET, run=RUN)

    def marks(self) -> tuple[BlockVector | None, Given]:
        """Fresh marks, and what the record says of them."""
        stamp = self.seal.stamp = self.transcript.answering(MOMENT)
        return self.labels.marks(), Given(stamp.party, stamp.nonce, self.transcript.confirmation(stamp))

    def differs(self, body: bytes) -> bool:
        return self.labels.differs(body, self.transcript)


class Comparison:
    """The parties of a small federation, their marks, and what the server makes of these."""

    def __init__(self, *shards: Shard, kind: str = "plain") -> None:
        self.cipher, self.key = KINDS[kind]
        named, alignment = aligned(shards, key=self.key, seed=SEED)
        self.layout = alignment.federation
        self.parties = {
            name: Compared(alignment.clients[name], table_of(shard), self.cipher, self.key)
            for name, shard in named.items()
        }
        given = {name: party.marks() for name, party in self.parties.items()}
        self.marks = {name: marks for name, (marks, _) in given.items()}
        record = Record(MOMENT, tuple(one for _, one in given.values()), seed_to_bytes(SEED))
        self.record = record_to_bytes(record, self.layout.clients)

    def results(self) -> dict[ClientId, bytes]:
        return {
            name: layout_result_to_bytes(LayoutResult(b"preparation", marks, None))
            for name, marks in self.marks.items()
        }

    def tasks(self) -> dict[ClientId, bytes]:
        return label_tasks(read_layout_results(self.results(), layout=self.layout, key=self.key), self.record)

    def sums(self, vector: Vector) -> bytes:
        """A task with a vector of the server's choice as the sums over the first party's blocks."""
        marks = self.marks[FIRST]
        assert marks is not None
        return label_sums_to_bytes(BlockVector(marks.blocks, vector), self.record)

    def differing(self) -> dict[ClientId, bool]:
        return {name: self.parties[name].differs(body) for name, body in self.tasks().items()}


def marks_of(
    labels: Sequence[float], weight: float = 1.0, *, secret: bytes = SECRET, run: RunId = RUN, **place: int
) -> NDArray[np.float64]:
    block, slot = (np.full(len(labels), place.get(name, 0)) for name in ("block", "slot"))
    return label_marks(np.array(labels), np.full(len(labels), weight), block, slot, secret=secret, run=run)


def test_a_mark_tells_labels_places_runs_and_secrets_apart_and_nothing_else() -> None:
    (mark,) = marks_of([1.0])
    assert marks_of([1.0, 1.0]).tolist() == [mark, mark]
    assert marks_of([0.0]) == marks_of([-0.0])
    apart = [marks_of([1.0], block=1), marks_of([1.0], slot=1), marks_of([1.0], 2.0)]
    others = [marks_of([-1.0]), marks_of([1.0], run=RunId("run-2")), marks_of([1.0], secret=bytes(32))]
    assert len({mark, *(other[0] for other in [*apart, *others])}) == 7


def test_a_sum_of_as_many_marks_as_there_can_be_parties_is_exact() -> None:
    units = marks_of(np.arange(1000.0).tolist()) / PRODUCT_FORMAT.resolution
    assert (units == np.floor(units)).all()
    assert units.max() * MAX_CLIENTS < 2**53


def test_marks_say_nothing_of_ids() -> None:
    """Whoever has the key of the run and the ciphertexts could otherwise try ids that it does not hold."""
    given = []
    for name in ("one", "another"):
        table = table_of(shard("f1", [1.0, -1.0, 1.0], [f"{name}-{row}" for row in range(3)]))
        layout = client_layout({1: 2, 4: 1}, slots=2, holders={1: (A, B), 4: (A, B)})
        marks, _ = Compared(layout, table, *KINDS["plain"]).marks()
        assert marks is not None
        given.append(read_unchecked(KINDS["plain"][0], marks.vector).tolist())
    assert given[0] == given[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "labels",
    [[1.0, -1.0, 1.0, 1.0] * 20, [0.0, 3.0, 9.0, 7.0] * 20, [0.1, 1e300, -5e-324, np.pi] * 20],
    ids=["binary", "classes", "real"],
)
def test_equal_labels_are_found_equal_in_any_order_of_rows(
    kind: str, labels: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    one = shard("f1", labels)
    other = Shard(one.ids[::-1], ("f2",), one.X, np.array(labels[::-1]))
    assert Comparison(one, other, kind=kind).differing() == {FIRST: False, SECOND: False}
    assert caplog.text == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "other"),
    [(1.0, -1.0), (3.0, 4.0), (0.1, 0.1 + 1e-17 + 2e-17), (1e300, 1.0000001e300)],
    ids=["binary", "classes", "real", "beyond the bound of vectors"],
)
def test_each_party_hears_in_its_own_log_how_many_labels_differ(
    kind: str, labels: float, other: float, caplog: pytest.LogCaptureFixture
) -> None:
    changed = np.full(50, labels)
    changed[[3, 17, 44]] = other
    pair = shard("f1", [labels] * 50), shard("f2", changed.tolist())
    assert Comparison(*pair, kind=kind).differing() == {FIRST: True, SECOND: True}
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 2
    assert all("3 of the 50 labels of samples that other parties hold too differ" in text for text in said)
    assert "sample-" not in caplog.text


def test_a_party_whose_label_is_the_mean_of_the_others_hears_of_the_difference_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Comparison(shard("f1", [0.0, 5.0]), shard("f2", [1.0, 5.0]), shard("f3", [2.0, 5.0]), kind="paillier")
    assert run.differing() == {FIRST: True, SECOND: True, THIRD: True}
    assert caplog.text.count("1 of the 2 labels") == 3


def test_only_the_parties_that_hold_the_sample_hear_of_the_difference(caplog: pytest.LogCaptureFixture) -> None:
    ids = [f"sample-{row}" for row in range(6)]
    run = Comparison(
        shard("f1", [1.0, 1.0, 1.0, 1.0], ids[:4]),
        shard("f2", [1.0, -1.0, 1.0, 1.0], ids[:2] + ids[4:]),
        shard("f3", [1.0, 1.0, 1.0, 1.0], ids[2:]),
    )
    assert run.differing() == {FIRST: True, SECOND: True, THIRD: False}
    assert caplog.text.count("1 of the 4 labels") == 2


def test_nothing_is_compared_where_no_sample_has_two_label_holders() -> None:
    labelled, unlabelled = shard("f1", [1.0, -1.0]), shard("f2", None, ["sample-0", "sample-1"])
    for shards in ([labelled, unlabelled], [labelled, shard("f1", [1.0], ["other"])]):
        run = Comparison(*shards)
        assert set(run.marks.values()) == {None}
        assert run.tasks() == {}


def test_a_holder_without_labels_takes_no_part() -> None:
    ids = ["sample-0", "sample-1"]
    run = Comparison(shard("f1", [1.0, -1.0]), shard("f2", None, ids), shard("f3", [1.0, -1.0]))
    assert run.marks[SECOND] is None
    assert run.differing() == {FIRST: False, THIRD: False}


def test_a_party_answers_for_one_set_of_sums_alone() -> None:
    run = Comparison(shard("f1", [1.0, 1.0]), shard("f2", [1.0, -1.0]))
    body = run.tasks()[FIRST]
    party = run.parties[FIRST]
    assert [party.differs(body) for _ in range(3)] == [True] * 3
    marks = run.marks[FIRST]
    assert marks is not None
    doubled = run.sums(marks.vector.plus(marks.vector))
    with pytest.raises(Refusal) as caught:
        party.differs(doubled)
    assert caught.value.public_reason == "it has compared its labels in this set-up already"
    assert party.differs(body)


def test_sums_that_cannot_be_opened_get_the_same_answer_as_labels_that_differ(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Comparison(shard("f1", [1.0, 1.0]), shard("f2", [1.0, 1.0]), kind="paillier")
    message = labels_pb2.LabelSums.FromString(run.tasks()[FIRST])
    vector = message.sums.vector.encrypted
    key = private_key(2 * SMALL_BITS).public_key
    vector.ciphertexts = paillier.add_many(key, [vector.ciphertexts, vector.ciphertexts])
    assert run.parties[FIRST].differs(message.SerializeToString())
    assert "could not be opened" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forgery", ["own marks twice", "one party's marks", "marks of another set-up"])
def test_a_sum_of_other_contributions_is_not_opened(kind: str, forgery: str, caplog: pytest.LogCaptureFixture) -> None:
    pair = shard("f1", [1.0, 1.0]), shard("f2", [1.0, 1.0])
    run = Comparison(*pair, kind=kind)
    first, second, earlier = run.marks[FIRST], run.marks[SECOND], Comparison(*pair, kind=kind).marks[SECOND]
    assert first is not None
    assert second is not None
    assert earlier is not None
    forged = {
        "own marks twice": first.vector.plus(first.vector),
        "one party's marks": second.vector,
        "marks of another set-up": first.vector.plus(earlier.vector),
    }[forgery]
    assert run.parties[FIRST].differs(run.sums(forged))
    assert "could not be opened" in caplog.text


def test_a_record_of_other_answers_or_without_a_party_or_with_a_false_confirmation_opens_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = shard("f1", [1.0, 1.0]), shard("f2", [1.0, 1.0])
    run = Comparison(*pair)
    whole = record_from_bytes(run.record, run.layout.clients)
    false = replace(whole, given=(whole.given[0], replace(whole.given[1], confirmation=bytes(16))))
    for record, error in ((false, Refusal), (replace(whole, given=whole.given[:1]), InvalidInput)):
        run.record = record_to_bytes(record, run.layout.clients)
        with pytest.raises(error):
            run.parties[FIRST].differs(run.tasks()[FIRST])
    other = Comparison(*pair)
    other.record = Comparison(*pair).record
    assert other.differing() == {FIRST: True, SECOND: True}
    assert caplog.text.count("could not be opened") == 2


def test_marks_of_other_places_never_pass_for_equal_labels() -> None:
    """A server that mixes blocks up learns nothing of labels: the answer is the same whatever they are."""
    slots = PlainCipher(KEY_BITS).slots
    run = Comparison(shard("f1", [1.0] * 2 * slots), shard("f2", [1.0] * 2 * slots))
    first, second = run.marks[FIRST], run.marks[SECOND]
    assert first is not None
    assert second is not None
    assert first.blocks == (0, 1)
    summed = first.vector.plus(second.vector)
    assert run.parties[FIRST].differs(run.sums(summed.select([1, 0])))


@pytest.mark.parametrize("change", ["fewer blocks", "another block"])
def test_sums_that_are_not_of_all_compared_blocks_are_refused_before_they_are_opened(change: str) -> None:
    slots = PlainCipher(KEY_BITS).slots
    run = Comparison(shard("f1", [1.0] * 2 * slots), shard("f2", [1.0] * 2 * slots))
    message = labels_pb2.LabelSums.FromString(run.tasks()[FIRST])
    if change == "fewer blocks":
        message.sums.blocks = numbers_to_bytes([0])
        plain = message.sums.vector.plain
        plain.values, plain.tags = plain.values[: 8 * slots], plain.tags[: len(plain.tags) // 2]
    else:
        message.sums.blocks = numbers_to_bytes([0, 2])
    with pytest.raises(InvalidInput, match="sums"):
        run.parties[FIRST].differs(message.SerializeToString())
    assert not run.parties[FIRST].differs(run.tasks()[FIRST]), "what is refused unopened is no answer"


def test_the_server_refuses_marks_that_are_not_those_of_the_layout() -> None:
    run = Comparison(shard("f1", [1.0, 1.0]), shard("f2", [1.0, 1.0]))
    results = run.results()
    given = labels_pb2.LayoutResult.FromString(results[FIRST])
    lacking = labels_pb2.LayoutResult(preparation=b"preparation")
    summed = labels_pb2.LayoutResult.FromString(results[FIRST])
    summed.marks.vector.plain.terms = 2
    elsewhere = labels_pb2.LayoutResult.FromString(results[FIRST])
    elsewhere.marks.blocks = numbers_to_bytes([5])
    for message in (lacking, summed, elsewhere):
        with pytest.raises(ResultRejected, match=f"result of {FIRST} rejected: marks"):
            read_layout_results(results | {FIRST: message.SerializeToString()}, layout=run.layout, key=run.key)
    apart = Comparison(shard("f1", [1.0], ["a"]), shard("f1", [1.0], ["b"]))
    with pytest.raises(ResultRejected, match="marks"):
        read_layout_results({FIRST: given.SerializeToString()}, layout=apart.layout, key=apart.key)


def test_the_server_names_the_parties_that_found_a_difference_and_rejects_what_is_no_answer() -> None:
    answers = {FIRST: True, SECOND: False, THIRD: True}
    results = {client: labels_compared_to_bytes(differ=differ) for client, differ in answers.items()}
    with pytest.raises(LabelsDiffer, match=f"the logs of {FIRST}, {THIRD} say how many do"):
        check_labels(results)
    check_labels({SECOND: results[SECOND]})
    with pytest.raises(ResultRejected, match=SECOND):
        check_labels({SECOND: b"\xff"})


def test_the_server_gets_ciphertext_of_one_block_each() -> None:
    run = Comparison(shard("f1", [1.0, -1.0]), shard("f2", [1.0, -1.0]), kind="paillier")
    read = read_layout_results(run.results(), layout=run.layout, key=run.key)
    for result in read.values():
        assert result.preparation == b"preparation"
        assert result.marks is not None
        assert isinstance(result.marks.vector, EncryptedVector)
        assert "preparation" not in repr(result).replace("preparation=", "")
