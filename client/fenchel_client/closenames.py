"""Names of features that are close to each other and perhaps mean the same: `chol` and `cholesterol`, `BMI` and `bmi`.

Names that differ in their digits (`x1`, `x2`) are not close. Of long lists, only names that begin alike are compared.
"""

import difflib
import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

CLOSE: Final = 0.8
"""The least ratio of `difflib.SequenceMatcher` of close names."""
SHORTEST: Final = 3
"""The least letters of a name that a longer one can begin with."""
MOST_PAIRS: Final = 40_000
"""The most pairs of names that are compared, whether they begin alike or not."""
_WORD: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d+")


def close_pairs(own: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of an own and another name that are close, in the order of the names."""
    found = [(mine, other) for mine, other in _candidates(sorted(own), sorted(others)) if are_close(mine, other)]
    return sorted(set(found))


def are_close(one: str, other: str) -> bool:
    """Whether two different names may well mean the same."""
    if _DIGITS.findall(one) != _DIGITS.findall(other):
        return False
    words, others = _words(one), _words(other)
    if sorted(words) == sorted(others):
        return True
    short, long = sorted(("".join(words), "".join(others)), key=len)
    if len(short) >= SHORTEST and long.startswith(short):
        return True
    matcher = difflib.SequenceMatcher(None, short, long, autojunk=False)
    return min(len(short), len(long)) >= SHORTEST and matcher.quick_ratio() >= CLOSE and matcher.ratio() >= CLOSE


def _candidates(own: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All pairs of short lists; of long ones, pairs that begin alike, at most `MOST_PAIRS`."""
    if len(own) * len(others) <= MOST_PAIRS:
        yield from itertools.product(own, others)
        return
    ours, theirs = _by_beginning(own), _by_beginning(others)
    alike = [(ours[beginning], theirs[beginning]) for beginning in ours.keys() & theirs.keys()]
    pairs = 0
    # Of a beginning that very many names have, the names are rarely meant to be the same.
    for mine, other in sorted(alike, key=lambda both: (len(both[0]) * len(both[1]), both)):
        pairs += len(mine) * len(other)
        if pairs > MOST_PAIRS:
            return
        yield from itertools.product(mine, other)


def _by_beginning(names: Iterable[str]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found["".join(_words(name))[:SHORTEST]].append(name)
    return found


def _words(name: str) -> list[str]:
    """The words of a name, without case and accents."""
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return _WORD.findall(plain.casefold().replace("_", " "))
