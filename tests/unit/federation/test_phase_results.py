"""What a party says that it spent, on the wire."""

import os

import pytest

from fenchel.v1 import setup_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.processmemory import peak_memory_bytes
from fenchel_common.setup import Spent
from fenchel_common.wire.setup import phase_result_from_bytes, phase_result_to_bytes


def test_a_result_and_its_costs_come_back_as_they_went() -> None:
    spent = Spent(encrypt_s=1.0, decrypt_s=2.0, compute_s=3.0, serialise_s=4.0, peak_memory_bytes=5, cpu_s=6.0)
    assert phase_result_from_bytes(phase_result_to_bytes(b"body", spent)) == (b"body", spent)
    assert spent.total_s == 10.0


@pytest.mark.parametrize("field", ["encrypt_s", "decrypt_s", "compute_s", "serialise_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_seconds_that_cannot_be_are_refused(field: str, value: float) -> None:
    message = setup_pb2.PhaseResult(body=b"body")
    setattr(message, field, value)
    with pytest.raises(InvalidInput, match="finite and not negative"):
        phase_result_from_bytes(message.SerializeToString())


def test_the_peak_of_memory_is_this_processs_own() -> None:
    block = os.urandom(64 << 20)
    assert len(block) < peak_memory_bytes() < 64 << 30
