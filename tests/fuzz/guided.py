"""Coverage-guided fuzzing with atheris: `python -m fuzz.guided [--runs N]`, which `fuzz.campaign` calls.

Each decoder is fuzzed in a child process, whose end says whether there was a finding. The mutations are those of the
campaign and libFuzzer's own, half and half; which of their inputs are kept to go on from is up to the coverage.
"""

import argparse
import contextlib
import io
import logging
import os
import random
import sys
import tempfile
from pathlib import Path

import atheris

INSTRUMENTED = ["fenchel_common", "fenchel_client", "fenchel_server", "fenchel_deploy"]

# It names every module that it instruments.
with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
    from fuzz.decoder import Decoder, Finding, try_input
    from fuzz.mutation import MAX_INPUT_BYTES, Mutator
    from fuzz.registry import decoders

TIMEOUT_S = 10
MEMORY_MB = 2048
SINGLE_ALLOCATION_MB = 512
SHA1_DIGITS = 40
"""libFuzzer names an input that reached something new by its hash."""


def fuzz(decoder: Decoder, runs: int, corpus: Path) -> None:
    """Fuzzes one decoder; libFuzzer ends the process when it is done."""
    mutator = Mutator(decoder.seeds, decoder.message)
    for number, seed in enumerate(decoder.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def one(data: bytes) -> None:
        outcome = try_input(decoder, data)
        if isinstance(outcome, Finding):
            sys.stdout.write(f"FINDING {outcome}\n")
            sys.stdout.flush()
            raise AssertionError(outcome.problem)

    def altered(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, max_size))
        return mutator.altered(data, rng)[:max_size]

    limits = [f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-malloc_limit_mb={SINGLE_ALLOCATION_MB}"]
    arguments = [f"-runs={runs}", "-seed=1", f"-max_len={MAX_INPUT_BYTES}", *limits, f"-artifact_prefix={corpus}/"]
    atheris.Setup(["fuzz", *arguments, "-verbosity=0", str(corpus)], one, custom_mutator=altered)
    atheris.Fuzz()


def fuzz_in_child(decoder: Decoder, runs: int) -> bool:
    """Whether the decoder came through."""
    with tempfile.TemporaryDirectory(prefix="fenchel-guided-") as folder:
        corpus, log = Path(folder) / "corpus", Path(folder) / "log"
        corpus.mkdir()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
            try:
                fuzz(decoder, runs, corpus)
            finally:
                os._exit(1)  # libFuzzer ends the process itself when all went well
        _, status = os.waitpid(child, 0)
        passed = os.waitstatus_to_exitcode(status) == 0
        kept = sum(len(path.name) == SHA1_DIGITS for path in corpus.iterdir())
        sys.stdout.write(f"{decoder.name:45} {runs:9} guided {kept:6} kept {'' if passed else log.read_text()}\n")
        sys.stdout.flush()
    return passed


def main() -> int:
    options = argparse.ArgumentParser(description="Fuzzes every decoder, guided by coverage.")
    options.add_argument("--runs", type=int, default=5_000, help="for each decoder")
    options.add_argument("--only", default="", help="decoders whose names contain this")
    chosen = options.parse_args()
    logging.disable(logging.CRITICAL)
    listed = [decoder for name, decoder in decoders().items() if chosen.only in name]
    failed = sum(not fuzz_in_child(decoder, chosen.runs) for decoder in listed)
    sys.stdout.write(f"{chosen.runs * len(listed)} guided inputs: {failed} decoders with findings\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
