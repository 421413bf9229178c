"""The check whether the server of a run at the level `paper` can work out rows; each family has its own rule."""

from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidConfig
from fenchel_common.privacy import Privacy


def row_leak(settings: AlgorithmSettings, *, changes: int | None = None, width: int = 0) -> str | None:
    """The reason, in words, why rows can leak to the server; None if no way is known.

    Parameters
    ----------
    changes
        The least number of a party's samples that a round may update, once that is known.
    width
        The most features that a party has, once that is known.
    """
    if settings.privacy is not Privacy.PAPER:
        return None
    return settings.family.row_leak(settings, changes, width)


def row_leak_warning(reason: str) -> str:
    """The warning to people before such a run starts."""
    return (
        "privacy = 'paper' shows the server every party's contribution to the model in every round, and from its "
        f"changes the server can work out rows of the parties' data: {reason}"
    )


def check_row_leak(
    settings: AlgorithmSettings, *, acknowledged: bool, changes: int | None = None, width: int = 0
) -> None:
    """Refuses a run in which rows can leak to the server, unless its configuration acknowledges that."""
    reason = row_leak(settings, changes=changes, width=width)
    if reason is not None and not acknowledged:
        raise InvalidConfig(
            f"{row_leak_warning(reason)}. Use privacy = 'sealed', or set acknowledge_row_leak = true if the server "
            "may learn them"
        )
