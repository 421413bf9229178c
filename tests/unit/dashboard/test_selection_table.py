"""The table of a path of regularisations on the page and in the report."""

from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.dashboard.documents import Table
from fenchel_deploy.dashboard.selection import selection_section
from fenchel_server.rounds.ledger import Traffic
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.rounds.pathtable import PathRow

WITH_PATH = RunConfig.from_mapping({"name": "path", "path": {"lambdas": [0.1, 0.01], "folds": 2, "metric": "auc"}})
ROWS = (
    PathRow(0.1, 9, 0.31, 9e-4, 0.971, 0.004, ("one_standard_error",)),
    PathRow(0.01, 7, 0.22, 8e-4, 0.974, 0.003, ("best",), taken=True),
)


def outcome(rows: tuple[PathRow, ...]) -> RunOutcome:
    return RunOutcome(
        rounds=16,
        rtc_per_round=3,
        certificate=LastCertificate(),
        seconds={},
        bytes=Traffic(0, 0),
        undelivered={},
        path=rows,
    )


def test_every_regularisation_has_a_row_that_says_by_which_rule_it_is_chosen() -> None:
    section = selection_section(WITH_PATH, outcome(ROWS))
    assert section is not None
    (table,) = section.items
    assert isinstance(table, Table)
    assert [column.name for column in table.columns][5] == "AUC, mean over folds"
    assert table.rows == (
        (0.1, 9, 0.31, 9e-4, "no", 0.971, 0.004, "one standard error"),
        (0.01, 7, 0.22, 8e-4, "yes", 0.974, 0.003, "best"),
    )


def test_a_path_without_folds_has_no_columns_for_what_was_not_measured() -> None:
    config = RunConfig.from_mapping({"name": "path", "path": {"lambdas": [0.1, 0.01]}})
    section = selection_section(config, outcome((PathRow(0.1, 9, 0.31, 9e-4, None, None, (), taken=True),)))
    assert section is not None
    (table,) = section.items
    assert isinstance(table, Table)
    assert table.rows == ((0.1, 9, 0.31, 9e-4, "yes"),)
    assert len(table.columns) == 5


def test_a_run_without_a_path_and_one_under_way_have_no_such_table() -> None:
    assert selection_section(RunConfig.from_mapping({"name": "one"}), outcome(())) is None
    assert selection_section(WITH_PATH, None) is None
