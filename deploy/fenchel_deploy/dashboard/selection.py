"""What a run with a path of regularisations found for each λ, and which λ was chosen."""

from fenchel_common.runconfig import RunConfig
from fenchel_common.selection import METRICS_IN_WORDS
from fenchel_deploy.dashboard.documents import Column, Form, Section, Table, Value, with_items
from fenchel_server.rounds.outcome import RunOutcome

RULE_WORDS = {"best": "best", "one_standard_error": "one standard error"}


def selection_section(config: RunConfig, outcome: RunOutcome | None) -> Section | None:
    """One row for each λ; None for a run without a path, and for one that is not over."""
    if config.path is None or outcome is None or not outcome.path:
        return None
    columns = [
        Column("λ", Form.FIGURE),
        Column("rounds", Form.COUNT),
        Column("objective", Form.FIGURE),
        Column("gap", Form.SMALL),
        Column("the model has it"),
    ]
    rows: list[tuple[Value, ...]] = [
        (row.lambda_, row.rounds, row.primal, row.gap, "yes" if row.taken else "no") for row in outcome.path
    ]
    caption = "Every λ begins at the dual variables of the one before."
    if config.path.metric is not None:
        columns += [
            Column(f"{METRICS_IN_WORDS[config.path.metric]}, mean over folds", Form.FIGURE),
            Column("its standard error", Form.FIGURE),
            Column("chosen by"),
        ]
        rows = [
            (*found, row.mean, row.error, ", ".join(RULE_WORDS.get(rule, rule) for rule in row.chosen) or None)
            for found, row in zip(rows, outcome.path, strict=True)
        ]
        caption += " Metrics are of samples that the fold left out."
    return with_items(
        "selection", "The path of λ", Table("path", "What each λ gave", tuple(columns), tuple(rows), caption)
    )
