"""`fenchel data`: what Fenchel would read of a table, and the shard.toml that says it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fenchel_common.data.canonical import RULE
from fenchel_common.data.tables.declaration import DECLARATION_FILE, CsvOptions
from fenchel_common.data.tables.files import files_of
from fenchel_common.data.tables.guess import guessed
from fenchel_common.data.tables.profile import ColumnProfile
from fenchel_common.data.tables.readers import FORMATS
from fenchel_common.data.tables.source import TableFile
from fenchel_common.errors import InvalidInput
from fenchel_deploy.cli.choices import parse_choice
from fenchel_deploy.cli.console import terminal
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json, printable
from fenchel_deploy.exampletables import ARCHIVE, write_example
from fenchel_deploy.inspection import SHOWN_VALUES, Inspection, bad_cells, inspect

SHOWN_COLUMNS = 200
NAMES = ", ".join(known.name for known in FORMATS)

data_app = typer.Typer(
    help=f"Look at a party's own table ({NAMES}) and declare what of it is used. Nothing leaves this machine.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    app.add_typer(data_app, name="data")


@data_app.command("inspect", epilog=epilog("data inspect"))
def inspect_command(
    path: Annotated[
        Path, typer.Argument(help=f"A table, its {DECLARATION_FILE}, or a folder with one of them.", metavar="PATH")
    ],
    output: FormatOption = Format.TABLE,
) -> None:
    """Show what would be used of a table: types, missing cells, categories, suspicious columns, and what is wrong.

    It shows cells of the table on this terminal, and sends nothing anywhere. Row 1 is the first row below the header.
    """
    found = inspect(path)
    if output is Format.JSON:
        print_json(found.as_json())
    else:
        _show(found)
    if found.problems:
        raise typer.Exit(ExitCode.MISSED)


@data_app.command("init", epilog=epilog("data init"))
def init_command(
    file: Annotated[Path, typer.Argument(help="The table, or a folder of Parquet files.", metavar="FILE")],
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="The column of the sample ids; repeatable.", metavar="COLUMN")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column of the labels.", metavar="COLUMN")] = None,
    positive: Annotated[str | None, typer.Option(help="Which of two labels is positive.", metavar="VALUE")] = None,
    encoding: Annotated[str, typer.Option(help="Of a CSV file, such as latin-1.")] = "utf-8",
    delimiter: Annotated[str | None, typer.Option(help="Of a CSV file; found from its header if not given.")] = None,
    decimal: Annotated[str, typer.Option(help='The decimal point of a CSV file: "." or ",".')] = ".",
    thousands: Annotated[str, typer.Option(help="What separates thousands in a CSV file: , . ' or a space.")] = "",
    force: Annotated[bool, typer.Option("--force", help=f"Overwrite a {DECLARATION_FILE} that is there.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write shard.toml beside a table: the ids, the labels and the type of every column, by guesses that are printed.

    Cells that are no numbers, in a column of numbers, are pointed out. Then correct it by hand where a guess is wrong,
    and look at the effect by `fenchel data inspect`.
    """
    target = file.parent / DECLARATION_FILE
    if target.exists() and not force:
        raise InvalidInput(f"{target}: is there already; look at it by `fenchel data inspect`, or add --force")
    files_of(file)
    table = TableFile(file, None)
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidInput("--delimiter: must be one character")
    options = CsvOptions.model_validate(
        {
            "delimiter": delimiter,
            "encoding": encoding,
            "decimal": parse_choice("--decimal", decimal, ".", ","),
            "thousands": parse_choice("--thousands", thousands, "", ",", ".", " ", "'"),
        }
    )
    profile = table.profile(table.blank().model_copy(update={"csv": options}))
    declaration, guesses = guessed(profile, id_columns=ids or (), label=label, positive=positive)
    target.write_text(declaration.to_toml(), encoding="utf-8")
    if output is Format.JSON:
        print_json({"path": str(target), "guesses": list(guesses)})
        return
    for guess in guesses:
        typer.echo(printable(f"guessed: {guess}"), err=True)
    for problem in bad_cells(profile, declaration):
        typer.echo(printable(f"problem: {problem}"), err=True)
    typer.echo(str(target))


@data_app.command("example", epilog=epilog("data example"))
def example_command(
    directory: Annotated[Path, typer.Argument(help="A new folder.", metavar="DIR")],
    archives: Annotated[
        Path | None,
        typer.Option(
            "--data",
            envvar="FENCHEL_DATA",
            help=f"Folder with {ARCHIVE}, the UCI heart disease data; without it the patients are made up.",
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write tables to try Fenchel with: four hospitals, each with a clinic and a lab that have the same patients."""
    written = write_example(directory, archives)
    if output is Format.JSON:
        print_json({"path": str(directory), "tables": written})
        return
    typer.echo(written, err=True)
    typer.echo(str(directory))


def _show(found: Inspection) -> None:
    console = terminal()
    columns = found.columns()[:SHOWN_COLUMNS]
    if columns:
        table = Table(title=f"{found.profile.source}: {found.profile.rows} rows, {found.profile.width} columns")
        for heading in ("column", "used as", "type", "missing", "values", "look at"):
            table.add_column(heading, overflow="fold")
        for column in columns:
            table.add_row(
                column.name,
                found.use_of(column),
                column.kind,
                str(column.missing),
                _values(column),
                "; ".join(column.suspicions()),
            )
        console.print(table)
    lines = [f"{found.profile.width - SHOWN_COLUMNS} columns more"] if len(found.columns()) > SHOWN_COLUMNS else []
    lines += [f"guessed: {guess}" for guess in found.guesses]
    lines.append(f"ids are compared as {RULE}")
    if found.loaded is not None:
        lines += [f"caution: {caution}" for caution in found.loaded.cautions]
        facts = found.shard_facts(found.loaded)
        labels = "no labels" if facts["labels"] is None else f"labels {facts['labels']}"
        lines.append(f"usable: {facts['samples']} samples, {facts['features']} features, {labels}")
    lines += [f"problem: {problem}" for problem in found.problems]
    for line in lines:
        typer.echo(printable(line))


def _values(column: ColumnProfile) -> str:
    if column.values is not None and len(column.values) <= SHOWN_VALUES:
        return ", ".join(f"{value} ({count})" for value, count in sorted(column.values.items()))
    if column.low is not None:
        return f"{column.low:g} to {column.high:g}"
    return "many" if column.values is None else f"{len(column.values)} different"
