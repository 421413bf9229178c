"""Phases, formats of vectors, preparation and settings that HyFDCA and corrective HyFDCA have in common."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fenchel_common.algorithms.settings import ANY_PARTITION, AlgorithmSettings, Profile
from fenchel_common.blocks import BlockVector
from fenchel_common.classlabels import check_classes, class_codes, class_name
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.errors import InvalidInput
from fenchel_common.labelrules import LabelRules
from fenchel_common.losses import LOSSES, Array, Fit, Loss
from fenchel_common.losses.weighted import LARGEST_WEIGHT, SMALLEST_WEIGHT, Weighted

ALPHA_FORMAT: Final = VectorFormat(bound=2.0)
"""For α and its changes, of a loss with y·α in [0, 1]: however many rounds add to α, and one change is at most 1."""
PRODUCT_FORMAT: Final = VectorFormat()
"""For inner products, squared row norms, contributions to the model and vectors of numbers."""

INNER_PRODUCT: Final = "inner_product"
LOCAL_DUAL: Final = "local_dual"
PRIMAL: Final = "primal"
MEASURED: Final = "measured"
"""Only with corrective steps: in the last round, the measurement of the final model."""

PREPARATION: Final = "HyfdcaProductResult"
"""The message that a party sends before the first round: a `ProductResult`."""

ABOUT_LOCAL: Final = (
    "corrective: nothing to tune, monotone. paper: Algorithm 5, the practical variant. theory: Algorithm 3."
)
ABOUT_CERTIFICATES: Final = (
    "Rounds between two certificates, which need all parties; 0: only at the end. The default is 5 with local = paper "
    "or theory, where a certificate takes extra work, and 10 with corrective steps of some of the parties."
)

MAX_CLASSES: Final = 100
"""The most classes of a run; every class is a problem of its own."""

TWO_CLASSES: Final = ("positive", "negative")
"""The names of the classes in a run of one problem."""

LARGEST_TARGET: Final = 500.0
"""The largest magnitude of a label that is a number: means of squared errors then stay within `PRODUCT_FORMAT`."""

Weight = Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT)]


def alpha_format(loss: Loss) -> VectorFormat:
    """For α and its changes: `ALPHA_FORMAT`, with a wider bound for a loss whose dual variables are further apart."""
    return VectorFormat(bound=2.0 * loss.dual_change)


@dataclass(frozen=True, slots=True)
class ProductResult:
    """Inner products with a party's rows; as the preparation, the squared norms of these rows."""

    products: BlockVector


class DualSettings(AlgorithmSettings):
    """Settings that both have in common; each adds `local`, and `certificate_every` with its own default."""

    profile: ClassVar[Profile] = Profile(
        summary="HyFDCA: dual coordinate ascent over rows and columns, to the centralized optimum",
        partitions=ANY_PARTITION,
        losses=tuple(LOSSES),
        encrypted=("dual variables and their changes", "inner products, row norms"),
        sealed=("each party's contribution to the model, and the model", "each party's sums of losses and conjugates"),
        visible={
            "P, D and the accuracy or mean squared error, over all samples": "in clear, at most once a round",
        },
        certified=True,
    )
    LABEL_SETTINGS: ClassVar[tuple[str, ...]] = ("class_weight", "sample_weights", "largest_weight", "target_scale")

    class_weight: Literal["balanced"] | dict[str, Weight] | None = Field(
        default=None,
        description="Weights of the classes in P: { positive = 9.0, negative = 1.0 }, by the names of several classes, "
        'or "balanced".',
    )
    sample_weights: bool = Field(default=False, description="Whether the tables have a weight for each sample.")
    largest_weight: float = Field(
        default=20.0,
        ge=1.0,
        le=LARGEST_WEIGHT,
        description="The largest weight of a sample; classes that are balanced and sample weights must keep to it.",
    )
    target_scale: Literal["standard", "none"] = Field(
        default="none",
        description="Numbers to predict: standard gives them mean 0 and deviation 1 over all parties.",
    )

    classes: Annotated[tuple[str | int, ...], Field(strict=False)] = Field(
        default=(),
        description="The names of three or more classes: a model for each, one-vs-rest; needs local = corrective.",
    )

    @field_validator("classes")
    @classmethod
    def _several_classes(cls, names: tuple[str | int, ...]) -> tuple[str | int, ...]:
        if names and not 3 <= len(names) <= MAX_CLASSES:
            raise ValueError(
                f"name 3 to {MAX_CLASSES} classes; a run of two classes needs no names, but labels -1 and +1 "
                "(`positive` and `negative` in shard.toml)"
            )
        class_codes([class_name(name) for name in names])
        return names

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        regression = LOSSES[self.loss].regression
        if self.class_weight is not None and regression:
            raise ValueError(f"class_weight: {self.loss} predicts numbers and has no classes; leave it out")
        if self.target_scale == "standard" and not regression:
            raise ValueError(f"target_scale: {self.loss} predicts classes, which have no scale; leave it out")
        if self.classes and regression:
            raise ValueError(f"classes: {self.loss} predicts numbers and has no classes; leave them out")
        if isinstance(self.class_weight, dict):
            known = self.class_names or TWO_CLASSES
            if others := [name for name in self.class_weight if class_name(name) not in known]:
                raise ValueError(f"class_weight: {others[0]!r} is no class of the run; give {', '.join(known)}")
        return self

    @property
    def label_rules(self) -> LabelRules:
        given = self.class_weight if isinstance(self.class_weight, dict) else {}
        by_name = {class_name(name): weight for name, weight in given.items()}
        weights = [by_name.get(name, 1.0) for name in self.class_names or TWO_CLASSES]
        positive, negative = (weights, [1.0] * len(weights)) if self.classes else (weights[:1], weights[1:])
        balanced = self.class_weight == "balanced"
        return LabelRules(
            classes=self.class_names,
            positive=tuple(positive),
            negative=tuple(negative),
            balanced=balanced,
            sample_weights=self.sample_weights,
            largest=self.largest_weight if balanced or self.sample_weights else max(*positive, *negative),
            standardise=self.target_scale == "standard",
        )

    @property
    def loss_function(self) -> Loss:
        """Its labels are pairs of label and weight if samples have weights."""
        loss, rules = super().loss_function, self.label_rules
        return Weighted(loss, rules.largest) if rules.weighted else loss

    def fit(self, mean: float) -> Fit:
        found = super().fit(mean)
        # The variance of standardised numbers is 1, so that the mean squared error is the unexplained share of it.
        return replace(found, r2=1.0 - mean) if self.target_scale == "standard" else found

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(class_name(name) for name in self.classes)

    @property
    def alpha_format(self) -> VectorFormat:
        """The format of vectors of dual variables and of their changes."""
        return alpha_format(self.loss_function)

    def check_labels(self, y: Array, weights: Array | None = None) -> None:
        loss, rules = LOSSES[self.loss], self.label_rules
        rules.check_weights(weights)
        if self.classes:
            check_classes(y, self.class_names)
            return
        loss.check_labels(y)
        if loss.regression and not rules.standardise and (np.abs(y) > LARGEST_TARGET).any():
            raise InvalidInput(
                f"y: numbers to predict must not exceed {LARGEST_TARGET:g} in magnitude; let the run have target_scale "
                "= 'standard' in its [settings], or divide them by a unit that is the same at every party"
            )
