"""`fenchel down`: removes federations of containers."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format
from fenchel_deploy.containers.engine import Engine, engine_errors


def register(app: typer.Typer) -> None:
    app.command("down", epilog=epilog("down"))(down)


def down(
    federation: Annotated[str | None, typer.Argument(help="Its name, as `fenchel up` shows it. Default: all.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Remove the containers, volumes and networks that `fenchel up` made, also those that still run.

    They are found by the label org.fenchel.federation, and nothing else is touched.
    """
    with engine_errors():
        removed = Engine.connect().remove(federation)
    if output is Format.JSON:
        typer.echo(json.dumps(asdict(removed)))
    else:
        typer.echo(
            f"removed {removed.containers} containers, {removed.volumes} volumes and {removed.networks} networks"
        )
