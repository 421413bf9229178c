"""Bounds on what a server has opened: every refusal says the same, and a few refusals lock the run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gmpy2
import pytest

from fenchel.v1 import corrective_pb2, records_pb2
from fenchel_client.runrecords import MAX_REFUSALS
from fenchel_client.statefolder import StateFolder
from fenchel_common.crypto.paillier import PublicKey, concatenate, split
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_common.setup import FINISH, INTRODUCE, NOT_USABLE
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.federationrun import FederationRun
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import OTHER, RUN, Federation, config, finish, refused

TERMS = config(settings={"lambda": 0.1, "local": "corrective"})
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
    """An honest task of the first round in which the other party opens sums, and which it has not seen yet."""
    run = FederationRun(TERMS, federation.kits["server"].roster, certificate=LastCertificate)
    algorithm = run.restore(done.record, done.snapshot)

    def answer(phase: str, client: ClientId, body: bytes) -> bytes:
        if phase == LOCAL_DUAL and client == OTHER:
            raise Reached(body)
        return federation.answer(client, phase, body, round_id=1)

    first = algorithm.begin_round(RoundId(1), run.clients, frozenset(), attempt=1)
    with pytest.raises(Reached) as caught:
        run_phases(first, algorithm, answer)
    return caught.value.task


def altered(task: bytes, change: Callable[[gmpy2.mpz, PublicKey], gmpy2.mpz], key: PublicKey) -> bytes:
    """The task with other ciphertexts of inner products."""
    message = records_pb2.RoundTask.FromString(task)
    body = corrective_pb2.CorrectiveDualTask.FromString(message.body)
    encrypted = body.point.vector.encrypted
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
    bad = altered(task_to_open(federation, done), one_unit_more, key)
    assert refused(federation, LOCAL_DUAL, bad, round_id=1).public_reason == NOT_USABLE
    kept = StateFolder(federation.directory / OTHER).run(RUN)
    assert kept is not None
    assert kept.refusals == 1
    federation.parties[OTHER] = federation.party(OTHER)
    kept = StateFolder(federation.directory / OTHER).run(RUN)
    assert kept is not None
    assert kept.refusals == 1
