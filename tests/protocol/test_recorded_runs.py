"""Runs on record: the same seed gives the same model to the last bit and, in clear, the same bytes on the wire.

Each line of `RECORDED` has the SHA-256, cut to 16 digits, of a run's model and of all its tasks and results, records
included; instead of random nonces, the results have numbers that count up. A change that is meant to keep results
leaves the lines as they are. A change of a message or of an algorithm renews them (the failure shows the new ones) and
says so in the changelog. Seed, slots and precision are stated, so that a change of their defaults does not show up.

The last bits of a sum depend on the order in which a processor adds. So the runs are repeated by a process that uses no
instructions beyond those that every x86-64 processor of today has.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_deploy.inprocess.layouts import KEY_BITS
from support.recorded_runs import AVERAGING, HYFDCA, CipherName, Level, digests

SLOTS: Final = 30
FRACTIONAL_BITS: Final = 32

RECORDED: Final[dict[str, tuple[str, str]]] = {
    "paper": ("bceb6d159acc3677", "4ea1fb0ed07425fc"),
    "theory": ("178b8e31fb5302d5", "8c67b2eebf53af98"),
    "corrective": ("0c8298eb3c65e1e2", "fe023b3fac08e809"),
    "corrective logistic": ("918f966fa2f6ba4a", "68fa10ed9c0c5471"),
    "fedavg": ("8f16c019764c36b2", "2407057636a63895"),
    "hyfem": ("b5f5736f2301bda4", "5a08fd60f25addd3"),
    "dualfl": ("08f2f127586f9bfc", "5b5b120dbbdce82c"),
    "scaffold": ("00d4096e4fa76b4a", "2a20e667ef5b5e17"),
    "scaffpd": ("2c50b1be92405173", "26189f9e164be539"),
    "fedsgm": ("5761e80769c64e83", "7eb359c7d4b98c6d"),
}


def test_what_the_records_were_made_with() -> None:
    assert slot_layout(VectorFormat(), KEY_BITS).slots == SLOTS
    assert VectorFormat().resolution == 2.0**-FRACTIONAL_BITS


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the records are of x86-64 processors")
def test_runs_in_clear_are_those_on_record() -> None:
    plainest = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"}
    tests = Path(__file__).parents[1]
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.recorded_runs"],
        env={**os.environ, **plainest, "PYTHONPATH": str(tests)},
        check=True,
        capture_output=True,
        cwd=tests.parent,
    )
    assert {name: tuple(digests) for name, digests in json.loads(made.stdout).items()} == RECORDED


@pytest.mark.parametrize("name", [*HYFDCA, *AVERAGING])
def test_every_cipher_gives_the_model_of_the_run_in_clear(name: str) -> None:
    levels: list[Level] = ["paper", "sealed"]
    ciphers: list[CipherName] = ["paillier", "masks"]
    models = {digests(name, level, hidden_by)[0] for level in levels for hidden_by in ciphers}
    assert models == {digests(name, "plain")[0]}
