"""The messages of records, with a valid one of each."""

from fenchel.v1 import records_pb2
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Given, Moment, Record, seed_to_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire import records
from fuzz.decoder import Decoder
from fuzz.wire_decoders import of_bytes


def record_decoders() -> list[Decoder]:
    clients = (ClientId("north"), ClientId("south"), ClientId("west"))
    given = tuple(Given(client, bytes(range(16)), bytes(range(16, 32))) for client in clients[1:])
    written = [
        records.record_to_bytes(record, clients)
        for record in (
            Record(Moment(1, RoundId(0), LAYOUT), given, seed_to_bytes(7)),
            Record(Moment(2, RoundId(3), ROUND), (), b"choices"),
        )
    ]
    task = records.round_task_to_bytes(b"body", first=2, records=written)
    result = records.round_result_to_bytes(b"body", nonce=bytes(16), confirmation=bytes(16))
    positions = records.positions_to_bytes(clients[1:], clients)
    return [
        of_bytes(records_pb2.PhaseRecord, records.record_from_bytes, *written, clients=clients),
        of_bytes(None, records.records_from_bytes, records.records_to_bytes(written)),
        of_bytes(None, records.positions_from_bytes, positions, clients=clients, field="parties"),
        of_bytes(records_pb2.RoundTask, records.round_task_from_bytes, task),
        of_bytes(records_pb2.RoundResult, records.round_result_from_bytes, result, party=clients[0]),
    ]
