"""No decoder of bytes from outside does anything but return a value or raise an error of the tree."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator

import pytest

from fenchel_common import wire
from fuzz.campaign import campaign, fuzz
from fuzz.decoder import Decoder, guarded, rewind, try_memory, warm_up
from fuzz.registry import decoders
from fuzz.vectors import Vector, vectors

INPUTS = 20_000
SEED = 20260101
TABLE_OF_22_BYTES = b'id;a;b\n1;2.5;x\n2;=;"x"'
"""Read first of all inputs, it took 24 MB: the modules of its reader."""
DECODER_NAME = re.compile(r"[a-z]\w*_from_(bytes|proto)")


def wire_decoders() -> Iterator[Callable[..., object]]:
    """Every public function of the wire package that decodes."""
    for module in pkgutil.iter_modules(wire.__path__):
        loaded = importlib.import_module(f"{wire.__name__}.{module.name}")
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            if DECODER_NAME.fullmatch(name) and function.__module__ == loaded.__name__:
                yield function


def test_every_public_decoder_of_the_wire_package_is_fuzzed() -> None:
    covered = {function for decoder in decoders().values() for function in decoder.covers}
    missing = [f"{function.__module__}.{function.__name__}" for function in wire_decoders() if function not in covered]

    assert missing == []
    assert len(list(wire_decoders())) > 30, "the search finds decoders"


def test_every_decoder_takes_its_own_seeds() -> None:
    for decoder in decoders().values():
        assert decoder.seeds, decoder.name
        for seed in decoder.seeds:
            decoder.read(seed)


def test_mutated_inputs_are_taken_or_refused_and_never_break_a_decoder() -> None:
    chosen = list(decoders().values())
    warm_up(chosen)
    reports = list(campaign(chosen, inputs=-(-INPUTS // len(chosen)), seed=SEED, watched=4))

    assert [str(finding) for report in reports for finding in report.findings] == []
    assert sum(report.inputs for report in reports) >= INPUTS
    # A campaign that is refused at the door would test the door only.
    assert 0.1 < sum(report.taken for report in reports) / sum(report.inputs for report in reports) < 0.9


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: f"{vector.decoder}: {vector.fault}")
def test_an_input_that_once_broke_a_decoder_is_refused_by_its_error(vector: Vector) -> None:
    decoder = decoders()[vector.decoder]
    with guarded():
        rewind()
        assert try_memory(decoder, vector.data) is False
        with pytest.raises(vector.refused_as):
            decoders()[vector.decoder].read(vector.data)


def test_a_small_table_takes_little_memory_once_its_reader_is_imported() -> None:
    reader = decoders()["load_shard of a CSV file"]
    warm_up([reader])
    with guarded():
        rewind()
        assert try_memory(reader, TABLE_OF_22_BYTES) is True


def breaks(data: bytes) -> object:
    return {b"seed": data}[data]


def hoards(data: bytes) -> object:
    return bytearray(len(data) << 21)


@pytest.mark.parametrize(("read", "problem"), [(breaks, "KeyError"), (hoards, "took")])
def test_a_decoder_that_breaks_the_contract_is_found(read: Callable[[bytes], object], problem: str) -> None:
    with guarded():
        report = fuzz(Decoder("faulty", read, (b"seed",)), inputs=20, seed=SEED)
    assert report.findings[0].problem.startswith(problem)


def test_the_same_seed_makes_the_same_inputs() -> None:
    def inputs() -> list[bytes]:
        seen: list[bytes] = []
        with guarded():
            fuzz(Decoder("recorder", seen.append, (b"seed",)), inputs=50, seed=SEED)
        return seen

    assert inputs() == inputs()
