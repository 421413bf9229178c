"""`fenchel demo`: a whole federation on this machine, without Docker."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION
from fenchel_common.errors import InvalidInput
from fenchel_deploy.cli.output import Format
from fenchel_deploy.demo import DemoOptions, reached, run_demo

EXIT_MISSED = 1


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    dataset: Annotated[str, typer.Option(help="breast_cancer, digits, or FILE.npz with X (or CSR parts) and y.")] = (
        "breast_cancer"
    ),
    grid: Annotated[str, typer.Option(help="KxQ: K row groups times Q column groups, one party each.")] = "2x2",
    columns: Annotated[str, typer.Option(help="How columns are cut: contiguous or shuffled.")] = "contiguous",
    loss: Annotated[str, typer.Option(help="hinge or logistic.")] = "hinge",
    lambda_: Annotated[float, typer.Option("--lambda", help="Regularisation.")] = 1e-2,
    gap: Annotated[float | None, typer.Option(help="Stop at this duality gap. Default: 0.1 % of the optimum.")] = None,
    participation: Annotated[str, typer.Option(help="all, fraction:0.5 or cyclic:2.")] = "all",
    rounds: Annotated[int, typer.Option(help="Give up after this many rounds.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the split and of the run.")] = 0,
    key_bits: Annotated[int, typer.Option(help="2048 or 3072.")] = 2048,
    key_kind: Annotated[str, typer.Option(help="standard, or subgroup: faster, one more assumption.")] = "standard",
    local: Annotated[str, typer.Option(help="paper (Algorithm 5) or theory (Algorithm 3).")] = "paper",
    h: Annotated[
        str, typer.Option("--h", help="Samples that a party updates a round: auto, a number or a fraction.")
    ] = ("auto"),
    privacy: Annotated[str, typer.Option(help="paper, or plain: no encryption, to see what it costs.")] = "paper",
    keep: Annotated[Path | None, typer.Option(help="Keep kits, shards, logs and state in this folder.")] = None,
    output: Annotated[Format, typer.Option("--format", help="What to print on stdout.")] = Format.TABLE,
) -> None:
    """Train over hospitals that each hold some rows and some columns, as real processes with mutual TLS and encryption.

    At the end the federated model stands beside the centralized optimum. Exit code 0: it is within 0.1 % of it, or
    within the gap that was asked for; 1: it is not.
    """
    options = DemoOptions(
        dataset=dataset,
        grid=_grid(grid),
        columns=_choice("--columns", columns, "contiguous", "shuffled"),
        loss=loss,
        lambda_=lambda_,
        local=_choice("--local", local, "paper", "theory"),
        h=_samples(h),
        participation=participation,
        privacy=_choice("--privacy", privacy, "paper", "plain"),
        key_bits=key_bits,
        key_kind=_choice("--key-kind", key_kind, "standard", "subgroup"),
        gap=gap,
        rounds=rounds,
        seed=seed,
    )
    console = Console(stderr=True)
    if key_kind == "subgroup":
        console.print(SUBGROUP_ASSUMPTION)
    view = _View(options)
    with Live(view, console=console, refresh_per_second=8, transient=output is Format.JSON):
        report = run_demo(options, directory=keep, tell=view.tell)
    if output is Format.JSON:
        typer.echo(json.dumps(report))
    else:
        _print_report(Console(), report)
    if not reached(report, options):
        raise typer.Exit(EXIT_MISSED)


class _View:
    """What a person sees while it runs."""

    def __init__(self, options: DemoOptions) -> None:
        self._options = options
        self._state = "solving the centralized problem, to compare with"
        self._round: Mapping[str, Any] = {}
        self._certified: Mapping[str, Any] = {}

    def tell(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "centralized":
                self._state = "starting the server and the clients"
            case "waiting":
                self._state = f"waiting for {', '.join(event['for'])}"
            case "round":
                self._state = "training"
                self._round = event
                if event["gap"] is not None:
                    self._certified = event
            case "ended":
                self._state = f"{event['status']}: {event['reason']}"

    def __rich__(self) -> Group:
        options, figures = self._options, self._certified
        parties = options.grid[0] * options.grid[1]
        stamp = " PLAINTEXT" if options.privacy == "plain" else f", {options.key_bits}-bit key"
        lines = [Text(f"{options.dataset} over {parties} parties{stamp}: {self._state}")]
        if self._round:
            line = f"round {self._round['round']}, {self._round['seconds']:.2f} s"
            if figures:
                line += f"; gap {figures['gap']:.2e}, accuracy {figures['accuracy']:.4f} (round {figures['round']})"
            lines.append(Text(line))
        return Group(*lines)


def _print_report(console: Console, report: Mapping[str, Any]) -> None:
    if report["privacy"] == "plain":
        console.print("PLAINTEXT: nothing in this run was encrypted", style="bold")
    table = Table(title=f"{report['dataset']} over {report['clients']} parties", show_header=True)
    for heading in ("", "federated", "centralized"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("objective P(w)", f"{report['primal']:.9f}", f"{report['centralized_primal']:.9f}")
    table.add_row("accuracy", f"{report['accuracy']:.4f}", f"{report['centralized_accuracy']:.4f}")
    table.add_row("relative error", f"{report['relative_error']:.2e}", "")
    gap = report["gap"]
    table.add_row("duality gap, the proof", "none: a share is stale" if gap is None else f"{gap:.2e}", "")
    table.add_row("rounds × round trips", f"{report['rounds']} × {report['rtc_per_round']}", "")
    console.print(table)
    costs = Table(title="What it cost")
    costs.add_column("")
    costs.add_column("", justify="right")
    for kind, seconds in report["seconds"].items():
        costs.add_row(f"{kind}, seconds", f"{seconds:.2f}")
    for way, count in report["bytes"].items():
        costs.add_row(f"bytes {way}", f"{count:,}")
    console.print(costs)
    saw = Table(title="What the server saw")
    saw.add_column("")
    saw.add_column("")
    for what, form in report["server_saw"].items():
        saw.add_row(what, form)
    console.print(saw)
    console.print(f"{report['status']}: {report['reason']}")


def _grid(text: str) -> tuple[int, int]:
    rows, _, columns = text.lower().partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
        raise InvalidInput(f"--grid: {text!r} is not of the form KxQ, such as 2x2")
    return int(rows), int(columns)


def _samples(text: str) -> str | int | float:
    try:
        return int(text) if text.isdecimal() else float(text) if text != "auto" else text
    except ValueError:
        raise InvalidInput(f"--h: {text!r} is neither auto, nor a number of samples, nor a fraction") from None


def _choice(option: str, value: str, first: str, second: str) -> Any:
    if value not in (first, second):
        raise InvalidInput(f"{option}: {value!r} is neither {first} nor {second}")
    return value
