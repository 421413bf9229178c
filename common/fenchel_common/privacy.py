"""The privacy levels of a run, what each level encrypts, and the ciphers that can do it."""

from enum import StrEnum
from typing import Final, Literal, get_args

CipherWord = Literal["paillier", "masks"]
"""The cipher of a run, by its word in a run's file."""
CIPHERS: Final[tuple[CipherWord, ...]] = get_args(CipherWord)


class Privacy(StrEnum):
    """A level, by its word in a run's file. Levels are ordered: a higher one shows the server less.

    `plain` encrypts nothing and is for measurements. `paper` encrypts vectors by sample: dual variables, inner
    products, row norms, marks of labels. `sealed` encrypts vectors by feature too (contributions to the model) and
    vectors of numbers (the figures of which P and D are made). The averaging algorithms encrypt all their vectors at
    `paper` and at `sealed`.
    """

    PLAIN = "plain"
    PAPER = "paper"
    SEALED = "sealed"

    @property
    def encrypts_samples(self) -> bool:
        """Whether vectors by sample are ciphertext; if not, the run has no key at all."""
        return self >= Privacy.PAPER

    @property
    def encrypts_features(self) -> bool:
        """Whether HyFDCA's vectors by feature and vectors of numbers are ciphertext."""
        return self >= Privacy.SEALED

    # `str` compares words by their letters, so each comparison is defined again here.
    def __lt__(self, other: str) -> bool:
        return self._rank < Privacy(other)._rank

    def __le__(self, other: str) -> bool:
        return self._rank <= Privacy(other)._rank

    def __gt__(self, other: str) -> bool:
        return self._rank > Privacy(other)._rank

    def __ge__(self, other: str) -> bool:
        return self._rank >= Privacy(other)._rank

    @property
    def _rank(self) -> int:
        return tuple(Privacy).index(self)
