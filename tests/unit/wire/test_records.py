"""Records and envelopes on the wire, and the server's own list of records."""

from dataclasses import replace

import pytest

from fenchel.v1 import records_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Given, Moment, Record
from fenchel_common.wire import records as wire
from fenchel_server.algorithms.transcript import Transcript

A, B, C = CLIENTS = tuple(ClientId(name) for name in "abc")
GIVEN = (Given(A, b"n" * 16, b"k" * 16), Given(C, b"m" * 16, b"l" * 16))
RECORD = Record(Moment(2, RoundId(7), "primal"), GIVEN, b"choices")


def test_records_and_envelopes_survive_the_way_over_the_wire() -> None:
    for record in (RECORD, Record(Moment(1, RoundId(1), ROUND)), replace(RECORD, given=())):
        assert wire.record_from_bytes(wire.record_to_bytes(record, CLIENTS), CLIENTS) == record
    task = wire.round_task_to_bytes(b"body", first=3, records=[b"one", b"", b"three"])
    assert wire.round_task_from_bytes(task) == (3, (b"one", b"", b"three"), b"body")
    result = wire.round_result_to_bytes(b"body", nonce=b"n" * 16, confirmation=b"k" * 16)
    assert wire.round_result_from_bytes(result, A) == (b"body", GIVEN[0])


def test_the_same_record_has_the_same_bytes() -> None:
    assert wire.record_to_bytes(RECORD, CLIENTS) == wire.record_to_bytes(replace(RECORD), list(CLIENTS))


@pytest.mark.parametrize(
    "changes",
    [
        {"parties": b"\0\0\0\0\0\0\0\0"},
        {"parties": b"\2\0\0\0\0\0\0\0"},
        {"parties": b"\0\0\0\0\3\0\0\0"},
        {"parties": b"\0\0\0\0\xff\xff\xff\xff"},
        {"parties": b"\0\0\0\0"},
        {"parties": b"\0\0\0\0\1\0\0\0\2"},
        {"parties": bytes(16)},
        {"nonces": b"n" * 31},
        {"nonces": b"n" * 48},
        {"confirmations": b""},
    ],
    ids=str,
)
def test_a_record_that_names_parties_wrongly_is_refused(changes: dict[str, bytes]) -> None:
    message = records_pb2.PhaseRecord.FromString(wire.record_to_bytes(RECORD, CLIENTS))
    for field, value in changes.items():
        setattr(message, field, value)
    with pytest.raises(InvalidInput, match="record"):
        wire.record_from_bytes(message.SerializeToString(), CLIENTS)


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0", b"\0\0\0\5four", b"\xff\xff\xff\xff", b"\0\0\0\1ab"])
def test_records_that_are_cut_off_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="cut off"):
        wire.records_from_bytes(data)
    with pytest.raises(InvalidInput, match="cut off"):
        wire.round_task_from_bytes(records_pb2.RoundTask(records=data).SerializeToString())


@pytest.mark.parametrize(("nonce", "confirmation"), [(15, 16), (16, 15), (0, 0), (17, 16), (16, 32)])
def test_a_result_without_a_whole_nonce_and_confirmation_is_refused(nonce: int, confirmation: int) -> None:
    result = wire.round_result_to_bytes(b"", nonce=bytes(nonce), confirmation=bytes(confirmation))
    with pytest.raises(InvalidInput, match="nonce, confirmation"):
        wire.round_result_from_bytes(result, A)


def result_of(client: ClientId) -> bytes:
    return wire.round_result_to_bytes(client.encode(), nonce=client.encode() * 16, confirmation=bytes(16))


class TestServerTranscript:
    """What the server puts on record, and what it sends to whom."""

    def test_a_client_gets_the_records_that_it_lacks(self) -> None:
        transcript = Transcript(CLIENTS, [b"layout"])
        transcript.add(Moment(1, RoundId(1), ROUND), choices=b"choice")
        first, records, body = wire.round_task_from_bytes(transcript.enclosed(A, b"body"))
        assert (first, records, body) == (0, transcript.records, b"body")
        assert [transcript.opened(client, result_of(client)) for client in (A, B)] == [b"a", b"b"]
        transcript.add(Moment(1, RoundId(1), "work"), contributors=[A])
        # A has confirmed the view of its result: it has all records before that of the phase.
        first, records, _ = wire.round_task_from_bytes(transcript.enclosed(A, b""))
        assert (first, records) == (2, transcript.records[2:])
        assert wire.round_task_from_bytes(transcript.enclosed(B, b""))[0] == 0
        transcript.forget([A])
        assert wire.round_task_from_bytes(transcript.enclosed(A, b""))[1] == transcript.records

    def test_a_record_names_the_contributors_in_roster_order_with_their_nonces(self) -> None:
        transcript = Transcript(CLIENTS, [])
        assert [transcript.opened(client, result_of(client)) for client in (C, A)] == [b"c", b"a"]
        with pytest.raises(InvalidInput):
            transcript.opened(B, b"\xff")
        transcript.add(Moment(1, RoundId(1), "work"), contributors=[C, A])
        record = wire.record_from_bytes(transcript.records[0], CLIENTS)
        assert [(given.party, given.nonce) for given in record.given] == [(A, b"a" * 16), (C, b"c" * 16)]
