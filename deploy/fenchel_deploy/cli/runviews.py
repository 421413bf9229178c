"""Facts about runs in words that several commands use."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from fenchel_common.selection import METRICS_IN_WORDS
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.comparison import BYTES_IN_WORDS
from fenchel_deploy.times import utc
from fenchel_server.store import PartyRecord, RunStatus
from fenchel_server.store.base import WITH_MODEL

PATH_FORMS = {"primal": ".6f", "gap": ".1e"}
KINDS_IN_WORDS = {
    "parties": "parties (their other work)",
    "wire": "wire (the network)",
    "wait": "wait (for parties that gave no answer)",
    "compute": "compute (the server's work)",
    "clients": "clients (until they are connected)",
}
"""The kinds of time whose name alone could be misread."""


def cost_rows(costs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """For each kind of cost its name, that of the whole run, and that of a usual round; for people to read.

    `costs` has the fields of a `RunOutcome`. For CPU seconds and bytes, a usual round is the mean over all rounds.
    """
    for kind, seconds in costs["seconds"].items():
        usual = costs["round_seconds"].get(kind)
        yield f"{KINDS_IN_WORDS.get(kind, kind)}, seconds", f"{seconds:.2f}", "" if usual is None else f"{usual:.3f}"
    for whose, seconds in costs.get("cpu_seconds", {}).items():
        yield f"{whose}, CPU seconds", f"{seconds:.2f}", f"{seconds / max(costs['rounds'], 1):.3f}"
    for way, count in costs["bytes"].items():
        if count is not None:
            yield BYTES_IN_WORDS[way], f"{count:,}", f"{count // max(costs['rounds'], 1):,}"


def score_rows(scores: Mapping[str, Any]) -> dict[str, str]:
    """How well a model predicts, beside its accuracy or its RMSE, for people to read; from fields of `ScoreFigures`."""
    rows = {}
    if scores["auc"] is not None:
        error = scores["auc_error"]
        rows["AUC"] = f"{scores['auc']:.4f}" + (f" ± {error:.4f}" if error else "")
    for name, shown in (("log_loss", "log-loss"), ("brier", "Brier score")):
        if scores[name] is not None:
            rows[shown] = f"{scores[name]:.4f}"
    return rows


def exit_code_of(ended: frozenset[RunStatus]) -> ExitCode:
    """The exit code of a command whose runs ended so."""
    if ended <= {RunStatus.COMPLETED}:
        return ExitCode.DONE
    return ExitCode.EXHAUSTED if ended <= WITH_MODEL else ExitCode.MISSED


def party_facts(parties: Sequence[PartyRecord]) -> list[dict[str, object]]:
    """What the server knows of each party, for programs."""
    return [
        {
            "party": one.party,
            "connected": one.connected,
            "since": utc(one.since),
            "reason": one.reason,
            "owes": None if one.phase is None else {"run": one.run, "round": one.round_id, "phase": one.phase},
        }
        for one in parties
    ]


def path_table(rows: Sequence[Mapping[str, Any]], *, metric: str | None) -> Table:
    """What a run found for each λ of its path, from the `path` of a `RunOutcome`; its model has the λ with a star."""
    named = [] if metric is None else [METRICS_IN_WORDS[metric], "standard error", "chosen by"]
    table = Table("λ", "rounds", "P", "gap", *named)
    table.columns[0].no_wrap = True
    for row in rows:
        figures = [f"{row['lambda_']:.4g}" + (" *" if row["taken"] else ""), str(row["rounds"])]
        figures += ["–" if row[name] is None else format(row[name], form) for name, form in PATH_FORMS.items()]
        scores = [row["mean"], row["error"]] if metric is not None else []
        told = ["–" if score is None else f"{score:.5f}" for score in scores]
        words = [] if metric is None else [", ".join(row["chosen"]).replace("_", " ")]
        table.add_row(*figures, *told, *words)
    return table
