"""The parts that `fenchel demo` and `fenchel up` have in common: their options, and the report at the end."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from fenchel_common.algorithms import SETTINGS
from fenchel_common.data.heterogeneous import Split
from fenchel_common.privacy import CIPHERS, Privacy
from fenchel_deploy.cli.choices import parse_choice, parse_grid, usual_grid, usual_rounds
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.liveview import following
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.runviews import cost_rows, score_rows
from fenchel_deploy.cli.story import RunStory
from fenchel_deploy.demonstration import DemonstrationOptions, Report, reached
from fenchel_deploy.running import Tell


def common_options(
    *,
    algorithm: str,
    dataset: str,
    grid: str | None,
    split: str,
    loss: str | None,
    lambda_: float | None,
    gap: float | None,
    rounds: int | None,
    seed: int,
    key_bits: int,
    privacy: str,
    cipher: str,
) -> DemonstrationOptions:
    """The options of both commands; without a grid or a number of rounds, those that suit the algorithm.

    Raises `InvalidInput` for a value that no option has.
    """
    profile = SETTINGS[parse_choice("--algorithm", algorithm, *SETTINGS)].profile
    rows = Split.parse(split)
    return DemonstrationOptions(
        algorithm=algorithm,
        dataset=dataset,
        grid=parse_grid(grid or usual_grid(profile, rows)),
        split=rows,
        loss=loss,
        lambda_=lambda_,
        privacy=Privacy(parse_choice("--privacy", privacy, *Privacy)),
        cipher=parse_choice("--cipher", cipher, *CIPHERS),
        key_bits=key_bits,
        gap=gap,
        rounds=rounds or usual_rounds(profile),
        seed=seed,
    )


def demonstrate(options: DemonstrationOptions, run: Callable[[Tell], Report], *, output: Format) -> None:
    """Runs a demonstration, which is followed on stderr, and prints its report on stdout.

    `run` gets the function that shows an event, and returns the report. If the run missed its goal, the command exits
    with `ExitCode.MISSED`.
    """
    parties = len(options.tables) or options.grid[0] * options.grid[1]
    story = RunStory(f"{options.dataset} over {parties} parties", "solving the centralized problem, to compare with")
    with following(story, output=output, stderr=True) as tell:
        report = run(tell)
    if output is Format.JSON:
        typer.echo(json.dumps(report))
    else:
        print_report(PlainConsole(), report)
    if not reached(report, options):
        raise typer.Exit(ExitCode.MISSED)


def print_report(console: Console, report: Mapping[str, Any]) -> None:
    if report["privacy"] == Privacy.PLAIN:
        console.print("PLAINTEXT: nothing in this run was encrypted", style="bold")
    table = Table(title=f"{report['dataset']} over {report['clients']} parties", show_header=True)
    for heading in ("", "federated", "centralized"):
        table.add_column(heading, justify="left" if not heading else "right")
    compared = "relative_error" in report
    best = f"{report['centralized_primal']:.9f}" if compared else "not computed"
    constrained = report.get("constraint") is not None
    table.add_row("objective f(w)" if constrained else "objective P(w)", f"{report['primal']:.9f}", best)
    if constrained:
        best = f"{report['centralized_constraint']:.9f}" if compared else ""
        table.add_row("constraint g(w)", f"{report['constraint']:.9f}", best)
    table.add_row("regularisation λ", f"{report['lambda']:g}", "")
    kind = "accuracy" if report["rmse"] is None else "rmse"
    for name, shown in ((kind, "RMSE" if kind == "rmse" else kind), ("r2", "R²")):
        if report[name] is not None:
            table.add_row(shown, f"{report[name]:.4f}", f"{report[f'centralized_{name}']:.4f}" if compared else "")
    if report.get("scores") is not None:
        central = score_rows(report["centralized_scores"])
        for name, value in score_rows(report["scores"]).items():
            table.add_row(name, value, central[name])
    if compared and report["relative_error"] is not None:
        table.add_row("relative error", f"{report['relative_error']:.2e}", "")
    gap = report["gap"]
    none = "none: a contribution is stale" if report["certified"] else "none"
    table.add_row("duality gap, the proof", none if gap is None else f"{float(gap):.2e}", "")
    table.add_row("rounds × round trips", f"{report['rounds']} × {report['rtc_per_round']}", "")
    for name, value in report.get("figures", {}).items():
        if name in (kind, "r2"):
            continue
        table.add_row(name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else str(value), "")
    console.print(table)
    console.print(_costs(report))
    console.print(_clients(report))
    if "wan" in report:
        console.print(_distance(report["wan"]))
    saw = Table(title="What the server saw")
    saw.add_column("")
    saw.add_column("")
    for what, form in report["server_saw"].items():
        saw.add_row(what, form)
    console.print(saw)
    console.print(f"{report['status']}: {report['reason']}")
    for path in report.get("models", ()):
        console.print(f"model: {path}", soft_wrap=True)
    if report.get("models") == []:
        console.print("the model is not kept; with --keep DIR each party's part of it is")


def _costs(report: Mapping[str, Any]) -> Table:
    costs = Table(title="What it cost")
    for heading in ("", "whole run", "a round"):
        costs.add_column(heading, justify="left" if not heading else "right")
    for row in cost_rows(report):
        costs.add_row(*row)
    return costs


def _clients(report: Mapping[str, Any]) -> Table:
    table = Table(title="What each party spent")
    for heading in ("", "crypto s", "work s", "wire s", "wait s", "kB up", "kB down", "MiB"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for name, spent in report["clients_detail"].items():
        crypto_s, work_s = spent["encrypt_s"] + spent["decrypt_s"], spent["serialise_s"] + spent["compute_s"]
        seconds = [f"{spent_s:.2f}" for spent_s in (crypto_s, work_s, spent["wire_s"], spent["wait_s"])]
        traffic = [f"{count / 1000:,.0f}" for count in (spent["bytes_up"], spent["bytes_down"])]
        table.add_row(name, *seconds, *traffic, f"{spent['rss_mib']:.0f}")
    return table


def _distance(wan: Mapping[str, Any]) -> Table:
    """The measured and the predicted times of a federation on a wide-area network."""
    line = "" if wan["mbit"] is None else f", {wan['mbit']:g} Mbit/s"
    table = Table(title=f"The network: {wan['profile']}{line}")
    for heading in ("seconds", "measured", "predicted"):
        table.add_column(heading, justify="left" if heading == "seconds" else "right")
    table.add_row("round trip", f"{wan['measured_rtt_s']:.4f}", f"{wan['rtt_s']:.4f}")
    if wan["round_s"] is not None:
        table.add_row("round", f"{wan['round_s']:.3f}", f"{wan['predicted_round_s']:.3f}")
    return table
