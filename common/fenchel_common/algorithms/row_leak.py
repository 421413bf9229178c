"""Whether the server of a run at the level `paper` can work rows out of what it sees; each family has its own rule."""

from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidConfig
from fenchel_common.privacy import Privacy


def row_leak(settings: AlgorithmSettings, *, changes: int | None = None, width: int = 0) -> str | None:
    """Why rows can leak to the server, in words; None if nothing is known that would let them.

    Parameters
    ----------
    changes
        The fewest samples that may be updated in a round among those of a party, once that is known.
    width
        The most features that a party has, once that is known.
    """
    if settings.privacy is not Privacy.PAPER:
        return None
    return settings.family.row_leak(settings, changes, width)


def row_leak_warning(reason: str) -> str:
    """For people to read, before the run starts."""
    return (
        "privacy = 'paper' shows the server every party's share of the model in every round, and from the way it "
        f"changes the server can work out rows of the parties' data: {reason}"
    )


def check_row_leak(
    settings: AlgorithmSettings, *, acknowledged: bool, changes: int | None = None, width: int = 0
) -> None:
    """Refuses a run in which rows can leak to the server, unless whoever configured it knows."""
    reason = row_leak(settings, changes=changes, width=width)
    if reason is not None and not acknowledged:
        raise InvalidConfig(
            f"{row_leak_warning(reason)}. Use privacy = 'sealed', or set acknowledge_row_leak = true if the server "
            "may learn them"
        )
