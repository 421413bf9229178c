"""`fenchel compare`: the costs of two runs side by side, with their ratios."""

import csv
import io
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fenchel_deploy.cli.completion import run_names
from fenchel_deploy.cli.console import terminal
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.output import print_json
from fenchel_deploy.comparison import Costs, Row, costs_of_run
from fenchel_deploy.comparison import compare as rows_of

COLUMNS = ("kind", "first", "second", "ratio")


class Format(StrEnum):
    """The forms in which a comparison can be printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    app.command("compare", epilog=epilog("compare"))(compare)


Word = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id or name in the state folder, or a file of results: RUN.json.",
        autocompletion=run_names,
    ),
]


def compare(
    first: Word,
    second: Word,
    state: Annotated[Path | None, typer.Option(metavar="DIR", help="The server's state folder.")] = None,
    output: Annotated[Format, typer.Option("--format", help="For people, programs, or a spreadsheet.")] = Format.TABLE,
) -> None:
    """Compare what two runs cost: seconds by kind, bytes, rounds and memory, and the ratio of the second to the first.

    A run that is not over counts with its committed rounds.
    """
    one, other = costs_of_run(first, state), costs_of_run(second, state)
    rows = rows_of(one, other)
    if output is Format.JSON:
        costs = [{**asdict(row), "ratio": row.ratio} for row in rows]
        print_json({"first": one.run, "second": other.run, "costs": costs})
    elif output is Format.CSV:
        typer.echo(_csv(rows), nl=False)
    else:
        terminal().print(_table(one, other, rows))


def _csv(rows: list[Row]) -> str:
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((row.kind, row.first, row.second, row.ratio) for row in rows)
    return content.getvalue()


def _table(one: Costs, other: Costs, rows: list[Row]) -> Table:
    table = Table()
    for heading in ("", one.run, other.run, "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        table.add_row(row.kind, *(_figure(value) for value in (row.first, row.second, row.ratio)))
    return table


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
