"""How costs grow: the sizes that are measured, and the exponents that are fitted to them."""

import subprocess
import sys

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_deploy.bench.processes import forget_peak_memory, peak_memory_mib, pss_mib
from fenchel_deploy.bench.scale import COSTS, ScaleBench, Size, exponents, largest_sum_mib, made_up

GROWS = """
block = bytes(range(256)) * (64 << 12)
print("has", flush=True)
input()
del block
print("had", flush=True)
input()
"""


@pytest.mark.parametrize(("parties", "grid"), [(1, (1, 1)), (2, (2, 1)), (12, (4, 3)), (16, (4, 4)), (100, (10, 10))])
def test_parties_make_a_grid_as_square_as_their_number_allows(parties: int, grid: tuple[int, int]) -> None:
    assert Size(parties, 1000, "masks").grid == grid


def test_a_size_that_no_table_fills_is_refused_before_anything_is_measured() -> None:
    bench = ScaleBench(parties=[4, 29], samples=[10], ciphers=["masks"])
    with pytest.raises(InvalidInput, match="29 parties make a grid of 29x1"):
        bench.run(print)
    with pytest.raises(InvalidInput, match="a grid of 22x22"):
        ScaleBench(parties=[22 * 22], samples=[1000], ciphers=["masks"]).check()


def test_the_exponents_of_power_laws_are_found() -> None:
    sizes = [(parties, samples) for parties in (4, 16, 64) for samples in (1000, 10_000)]
    rows = [
        {"parties": parties, "samples": samples, **dict.fromkeys(COSTS, 3.0 * samples**0.9 * parties**-0.5)}
        for parties, samples in sizes
    ]
    for found in exponents([*rows, {"parties": 64, "samples": 10**6, "failed": "it was killed"}]).values():
        assert found["samples"] == pytest.approx(0.9)
        assert found["parties"] == pytest.approx(-0.5)


def test_an_exponent_needs_two_sizes() -> None:
    row = {"parties": 4, "samples": 1000, **dict.fromkeys(COSTS, 1.0)}
    assert all(set(found.values()) == {None} for found in exponents([row]).values())
    found = exponents([row, {**row, "samples": 2000}])["round_s"]
    assert found == {"samples": pytest.approx(0.0, abs=1e-12), "parties": None}


def test_the_table_of_a_size_is_always_the_same() -> None:
    one, other = made_up(500, 7), made_up(500, 7)
    assert np.array_equal(np.asarray(one.X), np.asarray(other.X))
    assert one.y.tobytes() == other.y.tobytes()
    assert set(one.y) == {-1.0, 1.0}


def test_the_largest_sum_has_two_vectors_of_all_samples() -> None:
    bench = ScaleBench(parties=[4], samples=[1500], ciphers=["masks", "paillier"])
    masks, paillier = (largest_sum_mib(bench.config(cipher), Size(4, 1500, cipher)) for cipher in bench.ciphers)
    # Fifty blocks of 30 words of 64 bits, or of a ciphertext of 4096 bits.
    assert masks == 2 * 50 * 30 * 8 / 2**20
    assert paillier == 2 * 50 * 512 / 2**20


def test_the_peak_of_a_process_can_begin_anew_and_its_share_of_memory_is_no_more() -> None:
    command = [sys.executable, "-c", GROWS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "has\n"
        peak = peak_memory_mib(process.pid)
        assert peak >= pss_mib(process.pid) >= 64.0
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "had\n"
        assert peak_memory_mib(process.pid) >= peak - 1.0  # the kernel counts pages in batches
        forget_peak_memory(process.pid)
        assert peak_memory_mib(process.pid) < peak - 60.0
        print(file=process.stdin, flush=True)
