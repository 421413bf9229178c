"""The times that a party reports to the server: too coarse to tell one decryption from another."""

import statistics
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fenchel_client.crypto.plain import PlainCipher
from fenchel_client.crypto.timed import Stopwatch, TimedCipher, in_steps
from fenchel_client.task import Task
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import Spent
from fenchel_common.wire.setup import phase_result_from_bytes
from support.federation import InProcessFederation
from support.keys import cipher
from support.tables import named_shards, small_dataset
from support.tagged import decrypted, encrypted

CONFIG = RunConfig.from_mapping(
    {
        "name": "test",
        "settings": {"loss": "hinge", "lambda": 0.1, "local": "paper"},
        "key": {"bits": 2048},
        "stop": {"gap": 1e-9, "rounds": 3},
    }
)


def is_whole(seconds: float) -> bool:
    return round(seconds * 100) / 100 == seconds


def test_encryption_decryption_and_serialisation_are_counted_apart() -> None:
    watch = Stopwatch()
    timed = TimedCipher(PlainCipher(2048), watch)
    vector = encrypted(timed, np.arange(5.0))
    assert (watch.encrypt_s > 0, watch.decrypt_s, watch.serialise_s) == (True, 0.0, 0.0)
    decrypted(timed, vector)
    assert (watch.decrypt_s > 0, watch.serialise_s) == (True, 0.0)
    with watch.serialising():
        pass
    assert watch.serialise_s > 0


def test_vectors_in_clear_count_as_opened_too() -> None:
    """Otherwise a party could be asked to open numbers of which no refusal counts."""
    watch = Stopwatch()
    timed = TimedCipher(cipher(), watch).in_clear()
    decrypted(timed, encrypted(timed, np.arange(5.0)))
    assert watch.opened == 1


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.29, 7.0])
def test_a_whole_number_of_steps_is_reported_as_it_is(seconds: float) -> None:
    assert in_steps(seconds) == pytest.approx(seconds, abs=0.01)
    assert is_whole(in_steps(seconds))


def test_a_time_between_two_steps_becomes_one_of_them_and_stays_right_on_average() -> None:
    reported = [in_steps(0.1234) for _ in range(4000)]
    assert set(reported) == {0.12, 0.13}
    assert statistics.mean(reported) == pytest.approx(0.1234, abs=0.0004)


def test_microseconds_at_the_edge_of_a_step_do_not_decide_what_is_reported() -> None:
    """Rounded to the nearest step, the two times would differ by 10 ms in every report."""
    just_below, just_above = ([in_steps(0.005 + offset) for _ in range(4000)] for offset in (-1e-6, 1e-6))
    assert set(just_below) == set(just_above) == {0.0, 0.01}
    assert statistics.mean(just_below) == pytest.approx(statistics.mean(just_above), abs=0.0008)


def test_every_time_of_a_run_reaches_the_server_in_whole_steps(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(40, 4), grid=(2, 1))
    federation = InProcessFederation(tmp_path, shards, CONFIG, release_model_to_server=False)
    reported: list[Spent] = []

    def listened(name: ClientId, task: Task) -> bytes:
        envelope = federation.parties[name].handle(task)
        reported.append(phase_result_from_bytes(envelope)[1])
        return envelope

    federation.transport.handlers = {name: partial(listened, name) for name in federation.parties}
    federation.drive()
    assert len(reported) > 20
    for spent in reported:
        assert all(map(is_whole, (spent.encrypt_s, spent.decrypt_s, spent.compute_s, spent.serialise_s)))
    assert sum(spent.total_s for spent in reported) > 0
