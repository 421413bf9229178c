"""Checks that an algorithm can take a partition, a loss, a privacy level and a precision.

Errors name algorithms that can.
"""

from collections.abc import Collection
from typing import Final

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.settings import AlgorithmSettings, Partition
from fenchel_common.errors import InvalidConfig
from fenchel_common.intercept import FINEST_GAP
from fenchel_common.privacy import Privacy
from fenchel_common.selection import LambdaPath

WIDEST_WITH_INTERCEPT: Final = 100.0
"""The most by which the largest λ of a path may exceed the smallest one, in a run with an intercept."""


def check_partition(algorithm: str, partition: Partition) -> None:
    """Refuses a partition of the table into shards that the algorithm cannot take."""
    profile = SETTINGS[algorithm].profile
    if partition not in profile.partitions:
        fitting = [name for name, settings in SETTINGS.items() if partition in settings.profile.partitions]
        raise InvalidConfig(
            f"algorithm: {algorithm} takes {' or '.join(profile.partitions)} shards, and these are {partition}; "
            f"for {partition} shards choose one of {', '.join(fitting)}"
        )


def check_loss(algorithm: str, loss: object) -> None:
    """Refuses a loss that the algorithm does not take but another one does; None stands for the default."""
    known = SETTINGS[algorithm].profile.losses
    if loss is None or loss in known:
        return
    if fitting := [name for name, settings in SETTINGS.items() if loss in settings.profile.losses]:
        raise InvalidConfig(
            f"loss: {algorithm} takes {', '.join(known)}; for the loss {loss} choose one of the algorithms "
            f"{', '.join(fitting)}"
        )


def check_label_settings(algorithm: str, given: Collection[str]) -> None:
    """Refuses weights of samples and a scale of labels that the algorithm does not have but another one has."""
    known = SETTINGS[algorithm].parameters()
    for name in DualSettings.LABEL_SETTINGS:
        if name in given and name not in known:
            fitting = [other for other, entry in SETTINGS.items() if name in entry.parameters()]
            raise InvalidConfig(
                f"{name}: {algorithm} uses labels as they are and counts every sample once; leave it out, or choose "
                f"{' or '.join(fitting)}"
            )


def check_privacy(algorithm: str, privacy: Privacy) -> None:
    """Refuses a privacy level that the algorithm does not have."""
    levels = SETTINGS[algorithm].profile.privacy
    if privacy not in levels:
        fitting = [name for name, settings in SETTINGS.items() if privacy in settings.profile.privacy]
        raise InvalidConfig(
            f"privacy: {algorithm} has {' and '.join(levels)}, not {privacy}, which {', '.join(fitting)} have"
        )


def check_precision(settings: AlgorithmSettings) -> None:
    """Refuses slots of a width that vectors by sample cannot have with these settings."""
    if settings.precision != "auto" and settings.precision not in settings.widths:
        raise InvalidConfig(
            "precision: use auto or 64; slots of 32 or 48 bits need algorithm = 'hyfdca' with settings.local = "
            "'corrective' and a loss with a bounded slope, which bounds what is in them"
        )


def with_intercept(settings: AlgorithmSettings) -> AlgorithmSettings:
    """The settings of a run whose model has an intercept; refuses algorithms that train none, and too small a gap."""
    if "intercept" not in type(settings).model_fields:
        raise InvalidConfig(
            "features.intercept: only algorithm = 'hyfdca' with settings.local = 'corrective' trains an intercept; use "
            "it, or leave out intercept"
        )
    if settings.stop.gap is not None and settings.stop.gap < FINEST_GAP:
        raise InvalidConfig(
            f"features.intercept: the gap of a model with an intercept is not certified below {FINEST_GAP:g}; set "
            "stop.gap to this or more, or leave out intercept"
        )
    return settings.model_copy(update={"intercept": True})


def with_path(settings: AlgorithmSettings, path: LambdaPath, *, given: Collection[str]) -> AlgorithmSettings:
    """The settings of a run with a path; refuses what does not go with one. `given` are the settings by their names.

    λ is the smallest of the path, on which formats depend, and the rounds are those of all legs together.
    """
    if not isinstance(settings, CorrectiveSettings):
        raise InvalidConfig(
            "path: only algorithm = 'hyfdca' with settings.local = 'corrective' trains with several λ in one run; use "
            "it, or leave out [path] and give settings.lambda"
        )
    if "lambda" in given:
        raise InvalidConfig("path: has the values of λ; leave out settings.lambda")
    if settings.classes:
        raise InvalidConfig("path: a run of several classes has one λ; leave out [path], and give settings.lambda")
    if settings.certificate_every != 1:
        raise InvalidConfig("path: needs a certificate in every round; leave out settings.certificate_every")
    if settings.stop.gap is None or settings.stop.seconds is not None:
        raise InvalidConfig("path: every leg ends at stop.gap or after stop.rounds; give a gap, and no stop.seconds")
    if settings.intercept and path.lambdas[0] > WIDEST_WITH_INTERCEPT * path.lambdas[-1]:
        raise InvalidConfig(
            f"path: with features.intercept, the largest λ is at most {WIDEST_WITH_INTERCEPT:g} times the smallest one"
        )
    regression = settings.loss_function.regression
    if path.metric is not None and regression != (path.metric == "rmse"):
        raise InvalidConfig(f"path.metric: the loss {settings.loss} is measured by {'rmse' if regression else 'auc'}")
    if path.metric == "log_loss" and settings.loss != "logistic":
        raise InvalidConfig("path.metric: log_loss needs settings.loss = 'logistic', whose scores are log-odds")
    stop = settings.stop.model_copy(update={"rounds": settings.stop.rounds * path.legs})
    return settings.model_copy(update={"path": path, "lambda_": path.lambdas[-1], "stop": stop})
