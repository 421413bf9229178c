"""`fenchel predict`: scores of new rows, by a model whose parts are all at hand."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fenchel_client.privatefiles import write_private
from fenchel_common.model import find_model
from fenchel_common.model.joining import described, lacking
from fenchel_common.model.rows import TableRules
from fenchel_deploy.cli.console import terminal
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption, ModelsOption
from fenchel_deploy.cli.output import Format, print_json, printable
from fenchel_deploy.prediction import Prediction, whole

TOP = 10


def register(app: typer.Typer) -> None:
    app.command("predict", epilog=epilog("predict"))(predict)


def predict(
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="The new rows: a table, or several with different columns of the same samples.", metavar="TABLE…"
        ),
    ],
    models: ModelsOption,
    out: Annotated[Path | None, typer.Option(help="Write ids, scores and predictions to this CSV file.")] = None,
    explain: Annotated[
        Path | None, typer.Option(help="Write what each feature contributes to each score to this CSV file.")
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="How many features --explain shows for each row, the largest first; 0: all.")
    ] = TOP,
    rules: Annotated[
        Path | None, typer.Option(help="The shard.toml whose rules hold for the tables, if none lies beside them.")
    ] = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="The column of the sample ids; repeatable.", metavar="COLUMN")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column of the labels.", metavar="COLUMN")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Without parts of other parties: what these parts add to the scores.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Score new rows with a model of which all parts are here. Nothing is sent anywhere.

    The rows are read by the names of their columns, as the tables of parties are; where they have labels, the figures
    on stdout say how well they are predicted. The files are for their owner alone.
    """
    model = whole([find_model(path) for path in models], partial=partial)
    scored = Prediction.of(model, tables, TableRules(rules, tuple(ids or ()), label))
    lines = [f"caution: {note}" for note in scored.rows.notes]
    if scored.partial:
        lines.append(f"caution: {described(model.record)}: lacks {lacking(model)}; the scores are no predictions")
    for line in lines:
        typer.echo(printable(line), err=True)
    if out is not None:
        write_private(out, scored.scores_csv().encode())
    if explain is not None:
        write_private(explain, scored.explanation_csv(top).encode())
    figures = asdict(scored.quality())
    if output is Format.JSON:
        print_json(figures)
        return
    typer.echo(printable(described(model.record)))
    table = Table(show_header=False)
    for name, value in figures.items():
        if value is not None:
            table.add_row(name.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else str(value))
    terminal().print(table)
