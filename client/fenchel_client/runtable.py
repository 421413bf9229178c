"""The table that a party uses in a run: its own, with the features that the run makes.

These are the features of the run's vocabulary and, at a party with labels in a run with an intercept, a constant one.
"""

from fenchel_client.table import PartyTable
from fenchel_common.data.categories import Vocabulary
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.intercept import INTERCEPT
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.vocabulary import vocabulary_from_bytes

UNFIT = "its data do not fit this run"


def run_vocabulary(table: PartyTable, recorded: bytes) -> Vocabulary:
    """The vocabulary in a party's record of a run; without one, each listed value is a feature."""
    return vocabulary_from_bytes(recorded) if recorded else Vocabulary.listed(table.categories)


def run_feature_count(table: PartyTable, config: RunConfig, recorded: bytes) -> int:
    """The number of features that the party lists in a run; `table` is the party's own or that of the run."""
    return table.feature_count(run_vocabulary(table, recorded)) + _lacks_constant(table, config)


def run_table(table: PartyTable, config: RunConfig, recorded: bytes) -> PartyTable:
    """The party's table with these features; `DataUnfit` if two features would have the same name."""
    try:
        wider = table.expanded(run_vocabulary(table, recorded))
    except InvalidInput as error:
        raise DataUnfit(str(error), public_reason=UNFIT) from error
    return wider.with_constant(INTERCEPT) if _lacks_constant(wider, config) else wider


def check_constant(table: PartyTable, config: RunConfig) -> None:
    """Raises `DataUnfit` if one of the party's own columns has the name of the constant feature."""
    if _has_constant(table, config) and INTERCEPT in table.features:
        raise DataUnfit(
            f"column {INTERCEPT!r}: a run with an intercept adds a feature of this name; give the column another one",
            public_reason=UNFIT,
        )


def _lacks_constant(table: PartyTable, config: RunConfig) -> bool:
    return _has_constant(table, config) and INTERCEPT not in table.features


def _has_constant(table: PartyTable, config: RunConfig) -> bool:
    return table.y is not None and config.features is not None and config.features.intercept
