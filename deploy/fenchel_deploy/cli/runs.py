"""`fenchel runs`: submits, lists, shows, follows, stops and resumes the runs in a server's state."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fenchel_common.ids import RoundId
from fenchel_common.metrics import R2, RMSE, RoundMetrics
from fenchel_common.runconfig import RunConfig
from fenchel_common.scoresums import ScoreFigures
from fenchel_deploy.cli.console import terminal
from fenchel_deploy.cli.liveview import following
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption, RunArgument, StateOption
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.cli.runviews import cost_rows, exit_code_of, party_facts, path_table, score_rows
from fenchel_deploy.cli.story import RunStory
from fenchel_deploy.keys import key_in_words
from fenchel_deploy.runstatus import shown_reason, shown_status
from fenchel_deploy.times import utc
from fenchel_deploy.watching import run_events
from fenchel_server.queue import submit
from fenchel_server.results import history_of
from fenchel_server.rounds.outcome import RunOutcome, outcome_of_record
from fenchel_server.store import PartyRecord, RoundRecord, RunRecord, RunStatus, SqliteStore
from fenchel_server.store.statedir import is_served

LAST_ROUNDS = 10
"""How many of a run's rounds the table shows; JSON has all."""
FIT_NAMES = {RMSE: "RMSE", R2: "R²"}
"""The headings of the figures that take the place of the accuracy in regression."""

Reason = Annotated[str, typer.Option("--reason", help="Why, for the record.")]

runs = typer.Typer(no_args_is_help=True, help="The runs of a server: submit, list, show, watch, stop, resume.")


def register(app: typer.Typer) -> None:
    """Adds `runs` to the `fenchel` command."""
    app.add_typer(runs, name="runs")


@runs.command("submit", epilog=epilog("runs submit"), help="Put a run into the queue of a server.")
def submit_run(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="The TOML file of the run.")],
    state: StateOption,
    output: FormatOption = Format.TABLE,
) -> None:
    """Checks a run's file and queues the run; a server that stays takes it up within a second, when it is its turn."""
    checked = RunConfig.from_toml(config)
    with SqliteStore.operate(state) as store:
        record = submit(store, checked)
        queue = store.queued()
    served = is_served(state)
    if output is Format.JSON:
        print_json(_summary(record, None, (), served=served, queue=queue))
        return
    terminal().print(f"run {record.run} ({record.name}): {shown_reason(record, (), served=served, queue=queue)}")


@runs.command("list", epilog=epilog("runs list"), help="List all runs.")
def list_runs(state: StateOption, output: FormatOption = Format.TABLE) -> None:
    """Every run, oldest first."""
    with SqliteStore.inspect(state) as store:
        listed = [(record, store.last_round(record.run)) for record in store.runs()]
        parties, queue = store.parties(), store.queued()
    served = is_served(state)
    if output is Format.JSON:
        print_json([_summary(record, last, parties, served=served, queue=queue) for record, last in listed])
        return
    table = Table("run", "name", "status", "rounds", "updated", "reason")
    for record, last in listed:
        status = shown_status(record, served=served)
        reason = shown_reason(record, parties, served=served, queue=queue)
        table.add_row(record.run, record.name, status, str(_rounds(record, last)), utc(record.updated), reason)
    terminal().print(table)


@runs.command("show", epilog=epilog("runs show"), help="Show one run with its rounds.")
def show_run(run: RunArgument, state: StateOption, output: FormatOption = Format.TABLE) -> None:
    """A run's configuration, outcome and rounds."""
    with SqliteStore.inspect(state) as store:
        record = store.find(run)
        rounds, stop, parties = store.rounds(record.run), store.stop_request(record.run), store.parties()
    served = is_served(state)
    outcome = outcome_of_record(record, rounds)
    if output is Format.JSON:
        print_json(_detail(record, rounds, stop, outcome, parties, served=served))
        return
    console = terminal()
    console.print(_facts_table(record, rounds, stop, parties, served=served))
    if outcome is not None:
        if (scores := outcome.certificate.scores) is not None:
            console.print(_scores_table(scores))
        console.print(_costs_table(outcome))
    if outcome is not None and outcome.path:
        metric = RunConfig.from_json(record.config).path
        console.print(path_table(outcome.to_mapping()["path"], metric=None if metric is None else metric.metric))
    if len(rounds) > 1:
        console.print(_rounds_table(rounds[1:][-LAST_ROUNDS:]))


@runs.command("watch", epilog=epilog("runs watch"), help="Follow one run until it has ended.")
def watch_run(run: RunArgument, state: StateOption, output: FormatOption = Format.TABLE) -> None:
    """Shows a run as it goes on, beginning with its committed rounds; the exit code says how it ended."""
    status = RunStatus.STOPPED
    with following(RunStory(), output=output, stderr=False) as tell:
        for event in run_events(state, run):
            tell(event)
            if event["event"] == "ended":
                status = RunStatus(str(event["status"]))
    if code := exit_code_of(frozenset({status})):
        raise typer.Exit(code)


@runs.command(
    "stop", epilog=epilog("runs stop"), help="Stop a run after the phase that it is in; 'resume' takes it up again."
)
def stop_run(
    run: RunArgument,
    state: StateOption,
    reason: Reason = "stopped by the operator",
    output: FormatOption = Format.TABLE,
) -> None:
    """Stops a queued run at once, or asks the server to stop a running one."""
    with SqliteStore.operate(state) as store:
        record = store.request_stop(store.find(run).run, reason=reason)
        last, parties = store.last_round(record.run), store.parties()
    if output is Format.JSON:
        summary = _summary(record, last, parties, served=is_served(state))
        print_json({**summary, "stop_request": _pending_stop(record, reason)})
    elif record.status is RunStatus.STOPPED:
        terminal().print(f"run {run} is stopped")
    else:
        terminal().print(f"run {run} will stop after its current phase, or when its server starts again")


@runs.command(
    "resume", epilog=epilog("runs resume"), help="Queue a stopped or failed run again; its server takes it up."
)
def resume_run(run: RunArgument, state: StateOption, output: FormatOption = Format.TABLE) -> None:
    """Queues a run, to continue after its last committed round."""
    with SqliteStore.operate(state) as store:
        record = store.requeue(store.find(run).run)
        last, parties = store.last_round(record.run), store.parties()
    if output is Format.JSON:
        print_json(_summary(record, last, parties, served=is_served(state)))
    else:
        terminal().print(f"run {run} is queued; it continues after round {last or 0}")


def _rounds(record: RunRecord, last: RoundId | None) -> int:
    """The training rounds so far; a closing round does not count, as it does not for the limit."""
    return (last or 0) if record.outcome is None else RunOutcome.from_json(record.outcome).rounds


def _summary(
    record: RunRecord,
    last: RoundId | None,
    parties: Sequence[PartyRecord],
    *,
    served: bool,
    queue: Sequence[RunRecord] = (),
) -> dict[str, object]:
    under_way = served and record.status is RunStatus.RUNNING
    return {
        "run": record.run,
        "name": record.name,
        "status": shown_status(record, served=served),
        "reason": shown_reason(record, parties, served=served, queue=queue),
        "parties": party_facts(parties) if under_way else [],
        "rounds": _rounds(record, last),
        "created": utc(record.created),
        "updated": utc(record.updated),
        "attempts": record.attempt,
        "key": {"fingerprint": record.key_fingerprint, "bits": record.key_bits},
    }


def _detail(
    record: RunRecord,
    rounds: tuple[RoundRecord, ...],
    stop: str | None,
    outcome: RunOutcome | None,
    parties: Sequence[PartyRecord],
    *,
    served: bool,
) -> dict[str, object]:
    return {
        **_summary(record, rounds[-1].round_id if rounds else None, parties, served=served),
        "stop_request": stop,
        "config": json.loads(record.config),
        "outcome": None if record.outcome is None else json.loads(record.outcome),
        "costs": None if outcome is None else _costs(outcome),
        "history": history_of(rounds),
    }


def _costs(outcome: RunOutcome) -> dict[str, object]:
    names = ("seconds", "round_seconds", "cpu_seconds", "bytes", "clients_detail")
    return {name: value for name, value in outcome.to_mapping().items() if name in names}


def _scores_table(scores: ScoreFigures) -> Table:
    """How well the final model predicts, and its calibration."""
    table = Table("the final model", f"{scores.samples} samples")
    fits = {"accuracy": scores.accuracy, "RMSE": scores.rmse, "R²": scores.r2}
    rows = {name: f"{value:.4f}" for name, value in fits.items() if value is not None}
    for name, value in {**rows, **score_rows(asdict(scores))}.items():
        table.add_row(name, value)
    for row in scores.calibration:
        table.add_row(f"predicted {row.predicted:.3f}", f"observed {row.observed:.3f} of {row.samples} samples")
    return table


def _costs_table(outcome: RunOutcome) -> Table:
    table = Table("costs", "whole run", "a usual round")
    for row in cost_rows(outcome.to_mapping()):
        table.add_row(*row)
    return table


def _facts_table(
    record: RunRecord,
    rounds: tuple[RoundRecord, ...],
    stop: str | None,
    parties: Sequence[PartyRecord],
    *,
    served: bool,
) -> Table:
    facts = {
        "run": record.run,
        "name": record.name,
        "status": shown_status(record, served=served) + (f", stop requested: {stop}" if stop is not None else ""),
        "reason": shown_reason(record, parties, served=served),
        "rounds": str(_rounds(record, rounds[-1].round_id if rounds else None)),
        "attempts": str(record.attempt),
        "key": key_in_words(
            record.key_bits,
            cipher=RunConfig.from_json(record.config).cipher_in_use,
            fingerprint=record.key_fingerprint,
        ),
        "precision": str(RunConfig.from_json(record.config).precision),
        "created": utc(record.created),
        "updated": utc(record.updated),
    }
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def _rounds_table(rounds: tuple[RoundRecord, ...]) -> Table:
    metrics_of = [RoundMetrics.from_json(committed.metrics) for committed in rounds]
    fits = [name for name in (RMSE, R2) if any(name in metrics.figures for metrics in metrics_of)]
    names = [FIT_NAMES[name] for name in fits] or ["accuracy"]
    table = Table("round", "primal", "dual", "gap", *names, "seconds", "up", "down", "left out")
    for committed, metrics in zip(rounds, metrics_of, strict=True):
        fit = [metrics.figures.get(name) for name in fits] or [metrics.accuracy]
        table.add_row(
            "closing" if metrics.closing else str(committed.round_id),
            *(_figure(value) for value in (metrics.primal, metrics.dual, metrics.gap, *fit)),
            f"{committed.seconds['total']:.2f}",
            str(committed.bytes_up),
            str(committed.bytes_down),
            "; ".join(f"{absence.client} ({absence.reason})" for absence in committed.absences),
        )
    return table


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value + 0.0:.6g}"  # no minus sign before a zero


def _pending_stop(record: RunRecord, reason: str) -> str | None:
    return reason if record.status is RunStatus.RUNNING else None
