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
from support.recorded_runs import AVERAGING, HYFDCA, Level, digests

SLOTS: Final = 30
FRACTIONAL_BITS: Final = 32

RECORDED: Final[dict[str, tuple[str, str]]] = {
    "paper": ("2738c95ea9c8290a", "ad58bbb783781da8"),
    "theory": ("62e9111db9b49adc", "77b90a1a3e4cd990"),
    "corrective": ("b99e592fba265629", "40949b8fe8f38c24"),
    "corrective logistic": ("ad744884e9bd6d88", "9369719458238e3b"),
    "fedavg": ("8f16c019764c36b2", "ef7778e764414e49"),
    "hyfem": ("b5f5736f2301bda4", "c243a9ef626f1693"),
    "dualfl": ("1966d9557be34706", "10de9bcf6432d98e"),
    "scaffold": ("00d4096e4fa76b4a", "299d50997b8b79d9"),
    "scaffpd": ("2c50b1be92405173", "fe3c05c5d79fb0c7"),
    "fedsgm": ("5761e80769c64e83", "56878fc8dad46978"),
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


@pytest.mark.parametrize("level", ["paper", "sealed"])
@pytest.mark.parametrize("name", [*HYFDCA, *AVERAGING])
def test_an_encrypted_run_gives_the_model_of_the_run_in_clear(name: str, level: Level) -> None:
    assert digests(name, level)[0] == digests(name, "plain")[0]
