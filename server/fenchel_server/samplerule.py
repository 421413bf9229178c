"""The rule for samples that lack a label or a feature."""

from enum import Enum


class SampleRule(Enum):
    """Which samples a run uses; the values are those of the configuration.

    Samples that no label holder has are never used. `COMPLETE` also leaves out samples whose holders together lack a
    feature. The other two use them: what is lacking adds nothing to a product, and `IMPUTE` demands features whose mean
    is zero, so that this means the mean.
    """

    COMPLETE = "complete"
    LABELLED = "labelled"
    IMPUTE = "impute"
