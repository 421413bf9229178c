"""Checks that an algorithm can take a partition, a loss, a privacy level and a precision.

Errors name algorithms that can.
"""

from collections.abc import Collection

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.settings import AlgorithmSettings, Partition
from fenchel_common.errors import InvalidConfig
from fenchel_common.intercept import FINEST_GAP
from fenchel_common.privacy import Privacy


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
    fitting = [name for name, settings in SETTINGS.items() if loss in settings.profile.losses]
    if loss is not None and fitting and algorithm not in fitting:
        known = ", ".join(SETTINGS[algorithm].profile.losses)
        raise InvalidConfig(
            f"loss: {algorithm} takes {known}; for the loss {loss} choose one of the algorithms {', '.join(fitting)}"
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
