"""Masked vectors look random, and equal values under equal circumstances never look equal.

The bounds on p-values are so low that the battery raises a false alarm in fewer than one of 10^9 runs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from google.protobuf.message import Message
from numpy.typing import NDArray
from scipy import stats

from fenchel_client.crypto.stamps import Origin, Place
from fenchel_common.ids import RoundId
from fenchel_common.records import Moment
from support.corrective import RESULTS, at_level
from support.masked import PAIR, TRIO, A, C, at_moment, contribution, origin_of, places
from support.messages import vectors_in
from support.problems import problem

Bytes = NDArray[np.uint8]

CASE = problem(rows=1000, columns=12, lambda_=0.05)
LEAST_P: Final = 1e-10


def words_by_field(*, masked: bool) -> dict[tuple[int, str, str, str], bytes]:
    """The words of all vectors that parties send in three rounds, by round, phase, party and field."""
    run = at_level(CASE, (2, 2), "sealed" if masked else "plain", masked=masked)
    run.run(3)
    found: dict[tuple[int, str, str, str], bytes] = {}
    for round_id, phase, client, _, result in run.messages:
        message: Message = RESULTS[phase].FromString(result)
        for name, vector in vectors_in(message):
            assert vector.WhichOneof("kind") == ("masked" if masked else "plain")
            found[round_id, phase, client, name] = vector.masked.words if masked else vector.plain.values
    return found


@pytest.fixture(scope="module")
def sent() -> dict[tuple[int, str, str, str], bytes]:
    return words_by_field(masked=True)


def monobit(data: Bytes) -> float:
    """NIST SP 800-22, 2.1: as many ones as zeros."""
    bits = np.unpackbits(data)
    return float(2 * stats.norm.sf(abs(2.0 * bits.sum() - bits.size) / np.sqrt(bits.size)))


def runs(data: Bytes) -> float:
    """NIST SP 800-22, 2.3: as many runs of equal bits as there should be."""
    bits = np.unpackbits(data)
    count, share = 1 + int((bits[1:] != bits[:-1]).sum()), bits.mean()
    due = 2.0 * bits.size * share * (1.0 - share)
    return float(2 * stats.norm.sf(abs(count - due) / (2.0 * np.sqrt(bits.size) * share * (1.0 - share))))


def bytes_by_block(data: Bytes) -> float:
    """The chi-square of the counts of bytes, summed over blocks of 4096 bytes."""
    whole = data[: len(data) // 4096 * 4096].reshape(-1, 4096)
    counts = np.stack([np.bincount(block, minlength=256) for block in whole])
    return float(stats.chi2.sf(((counts - 16.0) ** 2 / 16.0).sum(), 255 * len(whole)))


def each_byte_of_a_word(data: Bytes) -> float:
    """The chi-square of the counts of bytes by their place in a word of 64 bits: values in clear have small words."""
    counts = np.stack([np.bincount(column, minlength=256) for column in data.reshape(-1, 8).T])
    due = len(data) / 8 / 256
    return float(stats.chi2.sf(((counts - due) ** 2 / due).sum(), 255 * 8))


def serial_correlation(lag: int) -> Callable[[Bytes], float]:
    """The correlation of bytes with those `lag` bytes later."""

    def p_value(data: Bytes) -> float:
        centred = data.astype(np.float64) - 127.5
        products = centred[lag:] * centred[:-lag]
        variance = (256.0**2 - 1.0) / 12.0
        return float(2 * stats.norm.sf(abs(products.sum()) / (variance * np.sqrt(len(products)))))

    return p_value


BATTERY: Final[dict[str, Callable[[Bytes], float]]] = {
    "monobit": monobit,
    "runs": runs,
    "bytes by block": bytes_by_block,
    "bytes of a word": each_byte_of_a_word,
    "next byte": serial_correlation(1),
    "next word": serial_correlation(8),
    "next block": serial_correlation(240),
}


def as_bytes(words: dict[tuple[int, str, str, str], bytes]) -> Bytes:
    return np.frombuffer(b"".join(words.values()), dtype=np.uint8)


@pytest.mark.parametrize("test", BATTERY.values(), ids=BATTERY)
def test_the_words_of_a_run_pass_a_test_of_randomness(
    sent: dict[tuple[int, str, str, str], bytes], test: Callable[[Bytes], float]
) -> None:
    data = as_bytes(sent)
    assert len(data) > 100_000
    assert test(data) > LEAST_P


def test_the_same_values_in_clear_fail_the_whole_battery() -> None:
    data = as_bytes(words_by_field(masked=False))
    assert {name for name, test in BATTERY.items() if test(data) > LEAST_P} == set()


def test_no_word_comes_twice_in_a_run_or_in_another_run_of_the_same_values(
    sent: dict[tuple[int, str, str, str], bytes],
) -> None:
    again = words_by_field(masked=True)
    assert {place: len(words) for place, words in again.items()} == {place: len(words) for place, words in sent.items()}
    both = np.frombuffer(b"".join((*sent.values(), *again.values())), dtype="<u8")
    assert len(np.unique(both)) == len(both)


ORIGIN, PLACE = origin_of(C), places(1)[0]
CHANGES: dict[str, tuple[Origin, Place]] = {
    "another round": (at_moment(ORIGIN, Moment(1, RoundId(2), "primal")), PLACE),
    "another attempt": (at_moment(ORIGIN, Moment(2, RoundId(1), "primal")), PLACE),
    "another phase": (at_moment(ORIGIN, Moment(1, RoundId(1), "sync")), PLACE),
    "another view": (origin_of(C, view=bytes([1] * 32)), PLACE),
    "another field": (origin_of(C, field="vertex"), PLACE),
    "another party": (origin_of(A), PLACE),
    "the same phase once more": (origin_of(C, nonce=1), PLACE),
    "another block": (ORIGIN, replace(PLACE, index=1, token=b"1" * 16)),
    "another stretch": (ORIGIN, replace(PLACE, stretch=b"other", token=b"2" * 16)),
    "another group": (ORIGIN, replace(PLACE, holders=PAIR)),
}


@pytest.mark.parametrize(("origin", "place"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("pairwise", [False, True], ids=["without pairs", "with pairs"])
def test_equal_values_have_no_word_and_no_tag_in_common(origin: Origin, place: Place, pairwise: bool) -> None:
    """Masks between pairs follow from the phase alone; the mask of the group is fresh in every message."""
    among = TRIO if pairwise else None
    values = np.full(30, 0.5)
    one = contribution(C, values, [PLACE], origin=ORIGIN, among=among)
    other = contribution(C, values, [place], origin=origin, among=among)
    assert not np.isin(one.integers, other.integers).any()
    assert one.tags != other.tags
