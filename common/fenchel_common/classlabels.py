"""Labels of several classes as numbers: every name of a class has a code, the same at every party and in every run.

A table's labels are numbers before any run is known, and parties that hold the same samples compare them. So the code
follows from the name alone: the code of a whole number is that number, and the code of any other name is a number from
its hash, above all numbers that a table is likely to have as labels.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]

_LABEL: Final = b"fenchel/v1/class\x00"
_WHOLE: Final = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_LARGEST_NUMBER: Final = 10**15
_HASH_BITS: Final = 52
"""Codes of names are whole numbers from 2^52 to 2^53, which floats have exactly."""


def class_name(name: str | int) -> str:
    """The name of a class as the run shows it: in Unicode NFC, without white space at its ends, numbers as digits."""
    text = unicodedata.normalize("NFC", str(name)).strip()
    return str(int(text.partition(".")[0])) if _WHOLE.fullmatch(text) else text


def class_code(name: str | int) -> float:
    """The code of a class; the same for all spellings that `fenchel_common.data.canonical` makes one."""
    text = class_name(name)
    if _WHOLE.fullmatch(text) and abs(int(text)) < _LARGEST_NUMBER:
        return float(text)
    digest = hashlib.sha256(_LABEL + text.encode()).digest()
    return float((1 << _HASH_BITS) + (int.from_bytes(digest[:8], "big") >> (64 - _HASH_BITS)))


def class_codes(names: Sequence[str]) -> tuple[float, ...]:
    """The codes of these classes; `ValueError` for a name that is empty, and for two names of the same class."""
    codes = tuple(class_code(name) for name in names)
    if "" in names or len(set(codes)) != len(codes):
        raise ValueError("every class needs a name of its own")
    return codes


def check_classes(y: Array, names: Sequence[str]) -> None:
    """Raises `InvalidInput`, which shows no label, for labels that are none of these classes."""
    others = ~np.isin(y, class_codes(names))
    if others.any():
        raise InvalidInput(
            f"y: {int(others.sum())} of {len(y)} labels are none of the {len(names)} names in settings.classes of the "
            "run; correct the labels, or the list in run.toml, which is the same for every party"
        )


def one_against_rest(y: Array, code: float) -> Array:
    """(n,) +1 for the samples of the class with this code, −1 for all others."""
    return np.where(y == code, 1.0, -1.0)
