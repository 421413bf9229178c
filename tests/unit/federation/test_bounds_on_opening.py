"""Bounds on what a server has opened: every refusal says the same, and a few refusals lock the run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gmpy2
import pytest

from fenchel.v1 import hyfdca_pb2, records_pb2
from fenchel_client.alignment import arrange
from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.currentrun import OUTGROWN, CurrentRun
from fenchel_client.runrecords import MAX_REFUSALS, RunRecords
from fenchel_client.statefolder import StateFolder
from fenchel_client.transcript import OTHER_STORY
from fenchel_common.crypto.paillier import PublicKey, concatenate, split
from fenchel_common.errors import FenchelError, Refusal, ValueOutOfRange
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_common.records import ROUND, Record
from fenchel_common.setup import FINISH, INTRODUCE, NOT_USABLE
from fenchel_common.wire.records import round_task_from_bytes, round_task_to_bytes
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.federationrun import FederationRun
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import HOLDER, OTHER, RUN, SHARDS, Federation, config, finish, refused
from support.forgeries import with_body, with_records

TERMS = config()
LOCAL_DUAL = "local_dual"


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


class Reached(Exception):
    """The task of the other party in the phase in which its inner products are opened."""

    def __init__(self, task: bytes) -> None:
        super().__init__()
        self.task = task


def task_to_open(federation: Federation, done: SetupDone) -> bytes:
    """An honest task of the first round in which the other party opens sums, and which it has not seen yet.

    It has all records of the run, so that the party can answer it after a restart too.
    """
    run = FederationRun(TERMS, federation.kits["server"].roster, certificate=LastCertificate)
    algorithm = run.restore(done.record, done.snapshot)
    told: list[bytes] = []

    def answer(phase: str, client: ClientId, task: bytes) -> bytes:
        if client == OTHER:
            _, records, body = round_task_from_bytes(task)
            told.extend(records)
            if phase == LOCAL_DUAL:
                raise Reached(round_task_to_bytes(body, first=0, records=told))
        return federation.answer(client, phase, task, round_id=1)

    first = algorithm.begin_round(RoundId(1), run.clients, frozenset(), attempt=1)
    with pytest.raises(Reached) as caught:
        run_phases(first, algorithm, answer)
    return caught.value.task


def altered(task: bytes, change: Callable[[gmpy2.mpz, PublicKey], gmpy2.mpz], key: PublicKey) -> bytes:
    """The task with other ciphertexts of inner products."""
    message = records_pb2.RoundTask.FromString(task)
    body = hyfdca_pb2.HyfdcaDualTask.FromString(message.body)
    encrypted = body.products.vector.encrypted
    numbers = [change(number, key) % key.n_squared for number in split(encrypted.ciphertexts, key.ciphertext_bytes)]
    encrypted.ciphertexts = concatenate(numbers, key.ciphertext_bytes)
    message.body = body.SerializeToString()
    return message.SerializeToString()


def one_unit_more(number: gmpy2.mpz, key: PublicKey) -> gmpy2.mpz:
    return number * (1 + key.n)


def doubled(number: gmpy2.mpz, _key: PublicKey) -> gmpy2.mpz:
    return number * number


def foreign(_number: gmpy2.mpz, _key: PublicKey) -> gmpy2.mpz:
    """A number that nobody encrypted."""
    return gmpy2.mpz(7)


def test_a_key_that_a_party_gave_up_is_not_used_again(federation: Federation) -> None:
    task = task_to_open(federation, federation.set_up(TERMS))
    folder = StateFolder(federation.directory / OTHER)
    kept = folder.run(RUN)
    assert kept is not None
    folder.keep_run(RUN, replace(kept, secrets=None))
    federation.parties[OTHER] = federation.party(OTHER)
    assert "does not have the key" in refused(federation, LOCAL_DUAL, task, round_id=1).public_reason


def test_every_refusal_after_decryption_is_the_same_and_a_few_lock_the_run_for_good(federation: Federation) -> None:
    done = federation.set_up(TERMS)
    key = PublicKey.from_bytes(done.record.public_key)
    good = task_to_open(federation, done)
    assert federation.answer(OTHER, LOCAL_DUAL, good, round_id=1)
    for change in (one_unit_more, doubled):
        bad = altered(good, change, key)
        assert refused(federation, LOCAL_DUAL, bad, round_id=1).public_reason == NOT_USABLE
    assert federation.answer(OTHER, LOCAL_DUAL, good, round_id=1), "two mishaps are no lock"
    assert refused(federation, LOCAL_DUAL, altered(good, foreign, key), round_id=1).public_reason == NOT_USABLE
    assert MAX_REFUSALS == 3
    for _ in range(2):
        assert "takes no further part" in refused(federation, LOCAL_DUAL, good, round_id=1).public_reason
        federation.parties[OTHER] = federation.party(OTHER)
    assert "takes no further part" in refused(federation, INTRODUCE, terms_to_bytes(TERMS)).public_reason
    assert "takes no further part" in refused(federation, FINISH, finish(), round_id=9).public_reason
    stored = (federation.directory / OTHER / f"{RUN}.run").read_bytes()
    assert b"paillier private key" not in stored, "a locked run has no use for its key"


def test_refusals_count_across_restarts(federation: Federation) -> None:
    done = federation.set_up(TERMS)
    key = PublicKey.from_bytes(done.record.public_key)
    good = task_to_open(federation, done)
    for change in (one_unit_more, doubled, foreign):
        assert refused(federation, LOCAL_DUAL, altered(good, change, key), round_id=1).public_reason == NOT_USABLE
        federation.parties[OTHER] = federation.party(OTHER)
    assert "takes no further part" in refused(federation, LOCAL_DUAL, good, round_id=1).public_reason


def of_another_story(task: bytes) -> bytes:
    """The same task, after a record that no party has confirmed like this."""

    def change(records: list[Record]) -> list[Record]:
        last = records[-1]
        return [*records[:-1], replace(last, given=tuple(replace(one, nonce=bytes(16)) for one in last.given))]

    return with_records(change, (HOLDER, OTHER))(task)


def of_an_inadmissible_choice(task: bytes) -> bytes:
    """The same task, in a round for which the server chose steps of another size than the settings say."""

    def change(records: list[Record]) -> list[Record]:
        return [chosen(record) if record.moment.phase == ROUND else record for record in records]

    def chosen(record: Record) -> Record:
        choices = hyfdca_pb2.HyfdcaRoundChoices.FromString(record.choices)
        choices.proportional = True
        return replace(record, choices=choices.SerializeToString())

    return with_records(change, (HOLDER, OTHER))(task)


def without_its_products(task: bytes) -> bytes:
    return with_body(lambda _body: b"")(task)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (of_another_story, OTHER_STORY),
        (of_an_inadmissible_choice, "it refused a choice of the server"),
        (without_its_products, "products"),
    ],
)
def test_what_is_refused_before_anything_is_opened_does_not_count(
    federation: Federation, change: Callable[[bytes], bytes], reason: str
) -> None:
    good = task_to_open(federation, federation.set_up(TERMS))
    for _ in range(MAX_REFUSALS + 1):
        federation.parties[OTHER] = federation.party(OTHER)
        with pytest.raises(FenchelError) as caught:
            federation.answer(OTHER, LOCAL_DUAL, change(good), round_id=1)
        told = caught.value.public_reason if isinstance(caught.value, Refusal) else str(caught.value)
        assert reason in told
    kept = StateFolder(federation.directory / OTHER).run(RUN)
    assert kept is not None
    assert kept.refusals == 0
    federation.parties[OTHER] = federation.party(OTHER)
    assert federation.answer(OTHER, LOCAL_DUAL, good, round_id=1)


def test_values_that_outgrow_the_vectors_count_if_an_earlier_task_opened_something(federation: Federation) -> None:
    """A party remembers what it opened, so its values tell of that in later tasks too."""
    federation.set_up(TERMS)
    kit, stopwatch = federation.kits[OTHER], Stopwatch()
    records = RunRecords(StateFolder(federation.directory / OTHER), party=OTHER)
    consent = Consent(accepts=frozenset(Concession))
    current = CurrentRun(arrange(SHARDS[OTHER]), records, stopwatch=stopwatch, consent=consent)

    def outgrow() -> None:
        raise ValueOutOfRange("a value is too large")

    def reason() -> str:
        with pytest.raises(Refusal) as caught:
            current.guarded(current.running(RUN, kit=kit), outgrow)
        return caught.value.public_reason

    assert [reason() for _ in range(MAX_REFUSALS)] == [OUTGROWN] * MAX_REFUSALS
    stopwatch.opened += 1
    assert [reason() for _ in range(MAX_REFUSALS)] == [NOT_USABLE] * MAX_REFUSALS
    assert "takes no further part" in reason()
