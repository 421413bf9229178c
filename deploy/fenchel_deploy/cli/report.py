"""`fenchel report`: a run, or several side by side, as one file to hand on, as figures for a paper, or as JSON."""

import math
from pathlib import Path
from typing import Annotated

import typer

from fenchel_common.errors import InvalidInput
from fenchel_deploy.cli.completion import run_names
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption, StateOption
from fenchel_deploy.cli.output import Format
from fenchel_deploy.dashboard.comparison import comparison_document
from fenchel_deploy.dashboard.documents import Document
from fenchel_deploy.dashboard.html import as_json, report_page
from fenchel_deploy.dashboard.rundocument import run_document
from fenchel_deploy.dashboard.state import StateView


def register(app: typer.Typer) -> None:
    app.command("report", epilog=epilog("report"))(report)


def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Ids or names of runs; several are compared.", autocompletion=run_names),
    ],
    state: StateOption,
    out: Annotated[
        Path | None, typer.Option(help="Write the report to this file: HTML that needs nothing else.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every chart as SVG and PNG into this folder.")
    ] = None,
    kit: Annotated[Path | None, typer.Option(help="The server's kit: the report says until when it is valid.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write down what became of a run: its certificate, charts, costs, what each role saw, and its configuration.

    The file opens from disk, without a network. With --format json the numbers behind all charts and tables go to
    stdout.
    """
    if out is None and figures is None and output is not Format.JSON:
        raise InvalidInput("say what to write: --out FILE, --figures DIR, or --format json")
    documents = _documents(runs, state, kit)
    if out is not None:
        _write(out, report_page(documents))
        typer.echo(f"report in {out}", err=True)
    if figures is not None:
        # matplotlib takes a second to load, and a report does not need it.
        from fenchel_deploy.dashboard.plates import write_plates

        for path in write_plates(documents, figures):
            typer.echo(f"figure in {path}", err=True)
    if output is Format.JSON:
        typer.echo(as_json(documents))


def _documents(runs: list[str], state: Path, kit: Path | None) -> list[Document]:
    """The comparison first, if there are several runs, and then each run."""
    view = StateView(state, kit=kit)
    try:
        views = [view.view(word, patience_s=math.inf) for word in dict.fromkeys(runs)]
        compared = [comparison_document(views)] if len(views) > 1 else []
        return [*compared, *map(run_document, views)]
    finally:
        view.close()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--out: {path} cannot be written: {error.strerror}") from error
