"""`fenchel export`: a model in the form of another program, or as a card for people."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fenchel_client.privatefiles import write_private
from fenchel_common.errors import InvalidInput
from fenchel_common.model import Model, find_model
from fenchel_common.model.joining import described, lacking
from fenchel_deploy.cli.choices import parse_choice
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption, ModelsOption
from fenchel_deploy.cli.output import Format, print_json, printable
from fenchel_deploy.export.columns import ColumnModel
from fenchel_deploy.prediction import check_rows, whole

FORMS = ("sklearn", "onnx", "card")
MAX_FIGURES_BYTES = 1 << 20


def register(app: typer.Typer) -> None:
    app.command("export", epilog=epilog("export"))(export)


def export(
    models: ModelsOption,
    to: Annotated[
        str, typer.Option(help="sklearn: a pipeline for joblib.load; onnx: a graph; or card: a model card in Markdown.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    single: Annotated[
        bool, typer.Option("--float32", help="With onnx: numbers of 32 bits, for runtimes without 64.")
    ] = False,
    figures: Annotated[
        Path | None, typer.Option(help="With card: the figures that `fenchel predict --format json` printed.")
    ] = None,
    intended_use: Annotated[str | None, typer.Option(help="With card: what the model is for.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Without parts of other parties: what these parts add to the scores.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write a model for other programs or for people. The file is for its owner alone until they hand it on.

    The pipeline and the graph take the columns of a table, prepare them as the run did, and give the scores of
    `fenchel predict`. To load the pipeline, scikit-learn and pandas are enough.
    """
    form = parse_choice("--to", to, *FORMS)
    if single and form != "onnx":
        raise InvalidInput("--float32: is for --to onnx alone")
    if (figures or intended_use) and form != "card":
        raise InvalidInput("--figures, --intended-use: are for --to card alone")
    model = whole([find_model(path) for path in models], partial=partial or form == "card")
    lack = lacking(model)
    if lack:
        typer.echo(printable(f"caution: {described(model.record)}: lacks {lack}"), err=True)
    write_private(out, _content(model, form, single=single, figures=figures, intended_use=intended_use))
    if output is Format.JSON:
        print_json({"form": form, "path": str(out), "run": model.record.run, "lacks": lack})
    else:
        typer.echo(str(out))


def _content(model: Model, form: str, *, single: bool, figures: Path | None, intended_use: str | None) -> bytes:
    # Each form has packages of its own, which are imported only where they are used.
    if form == "card":
        from fenchel_deploy.export.card import model_card

        measured = None if figures is None else _figures(figures)
        return model_card(model, intended_use=intended_use, measured=measured).encode()
    check_rows(model)
    by_columns = ColumnModel.of(model)
    if form == "sklearn":
        from fenchel_deploy.export.pipeline import pipeline_bytes

        return pipeline_bytes(by_columns)
    from fenchel_deploy.export.onnxgraph import onnx_bytes

    return onnx_bytes(by_columns, single=single)


def _figures(path: Path) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            found = json.loads(file.read(MAX_FIGURES_BYTES))
    except (OSError, ValueError):
        raise InvalidInput(f"{path}: is not what `fenchel predict --format json` printed") from None
    numbers = isinstance(found, dict) and all(isinstance(one, int | float | None) for one in found.values())
    if not numbers:
        raise InvalidInput(f"{path}: is not what `fenchel predict --format json` printed")
    return dict(found)
