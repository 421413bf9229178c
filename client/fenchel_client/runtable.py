"""The table that a party uses in a run: its own, with a constant feature in a run with an intercept."""

from fenchel_client.table import PartyTable
from fenchel_common.errors import DataUnfit
from fenchel_common.intercept import INTERCEPT
from fenchel_common.runconfig import RunConfig


def run_features(table: PartyTable, config: RunConfig) -> tuple[str, ...]:
    """The names of the features that the party lists in a run."""
    return (*table.features, INTERCEPT) if _has_constant(table, config) else table.features


def run_table(table: PartyTable, config: RunConfig) -> PartyTable:
    """The table with these features; `DataUnfit` if one of its own columns has the name of the constant feature."""
    if not _has_constant(table, config):
        return table
    if INTERCEPT in table.features:
        raise DataUnfit(
            f"column {INTERCEPT!r}: a run with an intercept adds a feature of this name; give the column another one",
            public_reason="its data do not fit this run",
        )
    return table.with_constant(INTERCEPT)


def _has_constant(table: PartyTable, config: RunConfig) -> bool:
    return table.y is not None and config.features is not None and config.features.intercept
