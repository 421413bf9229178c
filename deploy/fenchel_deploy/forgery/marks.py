"""The comparison of labels between halves in one process, whose set-up has none."""

from collections.abc import Callable
from typing import Self

from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.crypto.seal import Seal
from fenchel_client.labels import LabelComparison
from fenchel_client.transcript import StampedRecord, Transcript
from fenchel_common.blocks import summed
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Given, Moment, Record, seed_to_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.labels import label_sums_to_bytes
from fenchel_common.wire.records import record_to_bytes
from fenchel_deploy.inprocess.halves import ATTEMPT, Halves
from fenchel_deploy.inprocess.layouts import table_of
from fenchel_server.contract import AlgorithmServer

_KEY = bytes(32)
_FIRST_VIEW = bytes(32)


class _EmptyBook:
    rounds_done = 0

    def company(self, phase: str) -> None:
        del phase

    def after(self, record: StampedRecord) -> Self:
        del record
        return self


def compare_labels(halves: Halves[AlgorithmClient, AlgorithmServer], make_seal: Callable[[], Seal]) -> None:
    """Every party seals the marks of its labels, and opens the sums of the marks of all."""
    moment = Moment(ATTEMPT, RoundId(0), LAYOUT)
    clients, seed = halves.alignment.federation.clients, halves.settings.seed
    comparisons: dict[ClientId, LabelComparison] = {}
    transcripts: dict[ClientId, Transcript[_EmptyBook]] = {}
    vectors, given = {}, []
    for client in clients:
        transcript = Transcript(
            _FIRST_VIEW, _EmptyBook(), party=client, clients=clients, key=_KEY, seed=seed, attempt=ATTEMPT
        )
        seal = make_seal()
        seal.stamp = transcript.answering(moment)
        comparison = LabelComparison(
            halves.alignment.clients[client],
            table_of(halves.shards[client]),
            cipher=halves.ciphers[client],
            key=halves.key,
            seal=seal,
            secret=_KEY,
            run=halves.run_id,
        )
        vectors[client] = comparison.marks()
        given.append(Given(client, seal.stamp.nonce, transcript.confirmation(seal.stamp)))
        comparisons[client], transcripts[client] = comparison, transcript
    record = record_to_bytes(Record(moment, tuple(given), seed_to_bytes(seed)), clients)
    sums = summed(vectors.values())
    for client, comparison in comparisons.items():
        own = vectors[client]
        due = None if own is None else sums.on(own.blocks)
        if due is not None and comparison.differs(label_sums_to_bytes(due, record), transcripts[client]):
            raise AssertionError("the parties hold the same labels")
