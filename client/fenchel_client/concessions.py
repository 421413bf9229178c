"""The ways in which a run may protect less than by default, each only if the party's operator agrees.

By default a run is `sealed`, under a standard key of 3072 bits, aligns samples by ECDH, has a seed that its parties
derive from their secret, and searches for no extremes or quartiles of features.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Concession(StrEnum):
    """One way in which a run protects less; its value is the word of `fenchel client --accept`."""

    PAPER = "paper"
    PLAIN = "plain"
    KEY_2048 = "2048-bits"
    SUBGROUP = "subgroup"
    HMAC = "hmac"
    SEED = "seed"
    EXTREMES = "extremes"


MEANINGS: Final[Mapping[Concession, str]] = {
    Concession.PAPER: "the server sees each party's contribution to the model in every round, and may work out rows",
    Concession.PLAIN: "nothing is encrypted, the server sees every value",
    Concession.KEY_2048: "the key has 2048 bits, about 112 bits of security instead of 128",
    Concession.SUBGROUP: "the key rests on one more assumption, for faster decryption",
    Concession.HMAC: "the server together with any one party can try out sample ids",
    Concession.SEED: "whoever wrote the terms chose the seed, and so which samples are drawn",
    Concession.EXTREMES: "all holders of a feature learn its extremes or quartiles, which are values of single samples",
}


def explained(concessions: tuple[Concession, ...] = tuple(Concession)) -> str:
    """The words of these concessions, each with its meaning."""
    return "; ".join(f"{concession} ({MEANINGS[concession]})" for concession in concessions)
