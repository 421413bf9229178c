"""The privacy levels of a run: what of it is encrypted."""

from enum import StrEnum


class Privacy(StrEnum):
    """A level, by its word in a run's file. Levels are ordered: a higher one shows the server less.

    `plain` encrypts nothing and is for measurements. `paper` encrypts vectors by sample: dual variables, inner
    products, row norms, marks of labels. `sealed` encrypts vectors by feature and figures too: parts of the model, and
    what P and D are made of. The averaging algorithms encrypt all their vectors at both of these levels.
    """

    PLAIN = "plain"
    PAPER = "paper"
    SEALED = "sealed"

    @property
    def encrypts_samples(self) -> bool:
        """Whether vectors by sample are ciphertext; without that the run has no key at all."""
        return self >= Privacy.PAPER

    @property
    def encrypts_features(self) -> bool:
        """Whether HyFDCA's vectors by feature, and its figures, are ciphertext."""
        return self >= Privacy.SEALED

    # Words are compared by their letters, so that each comparison has to be defined anew.
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
