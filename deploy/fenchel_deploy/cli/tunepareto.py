"""`fenchel tune --objective pareto`: its options as they are read, and its table."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.table import Table

from fenchel_common.algorithms import SETTINGS
from fenchel_common.errors import InvalidInput
from fenchel_deploy.cli.console import PlainConsole, terminal
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.output import Format
from fenchel_deploy.papers.choice import Range
from fenchel_deploy.paretotuning import ParetoOptions, run_pareto_tune


def parse_ranges(algorithm: str, texts: Sequence[str]) -> dict[str, Range]:
    """Reads the NAME=LOW:HIGH of --range; a parameter whose default is a whole number gets whole numbers."""
    known = SETTINGS[algorithm].parameters()
    ranges = {}
    for text in texts:
        name, _, bounds = text.partition("=")
        low, _, high = bounds.partition(":")
        try:
            found = Range(float(low), float(high), whole=type(known.get(name, (None,))[0]) is int)
        except ValueError:
            raise InvalidInput(f"--range: {text!r} is not of the form NAME=LOW:HIGH, such as a=1e-5:25") from None
        if name not in known:
            raise InvalidInput(f"--range: {algorithm} has no parameter {name!r}; its parameters are {', '.join(known)}")
        if not 0.0 < found.low < found.high < float("inf"):
            raise InvalidInput(f"--range: {text!r}: LOW must be above 0 and below HIGH")
        ranges[name] = found
    return ranges


def tune_pareto(options: ParetoOptions, *, output: Format) -> None:
    """Searches, and prints the trials; exits with `ExitCode.MISSED` if all of them diverged."""
    console = PlainConsole(stderr=True, soft_wrap=True)
    report = run_pareto_tune(options, console.print)
    if output is Format.JSON:
        typer.echo(json.dumps(report))
    else:
        _print(report)
    if not any(trial["chosen"] for trial in report["trials"]):
        raise typer.Exit(ExitCode.MISSED)


def _print(report: Mapping[str, Any]) -> None:
    names = list(report["trials"][0]["values"])
    headings = ("loss", "accuracy", "volatility", "rounds to 90 %", "s a round", "at 257.5 ms", "grade", "")
    table = Table(*names, *headings, title=f"{report['algorithm']}, {report['rounds']} rounds each")
    metrics = ("last_losses", "accuracy", "volatility", "rounds_to_90", "runtime_0", "runtime_257")
    for trial in report["trials"]:
        values = [f"{trial['values'][name]:.4g}" for name in names]
        if trial["metrics"] is None:
            table.add_row(*values, "diverged")
            continue
        cells = [f"{trial['metrics'][name]:.4g}" for name in metrics]
        grade = "beaten" if trial["grade"] is None else f"{trial['grade']:.3f}"
        table.add_row(*values, *cells, grade, "chosen" if trial["chosen"] else "")
    terminal().print(table)
