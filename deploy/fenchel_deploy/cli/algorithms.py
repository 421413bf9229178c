"""`fenchel algorithms`: the algorithms, or one of them: the shards that it takes, and what the server sees of it."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.outside import package_of
from fenchel_deploy.cli.choices import parse_choice
from fenchel_deploy.cli.completion import algorithm_names
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format


def register(app: typer.Typer) -> None:
    app.command("algorithms", epilog=epilog("algorithms"))(algorithms)


def algorithms(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this one alone.", autocompletion=algorithm_names)
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the algorithms: shards and losses they take, what is encrypted and what is not, their parameters."""
    known = parse_choice("NAME", name, *SETTINGS) if name else None
    listed = [entry for entry in describe_algorithms() if known in (None, entry["name"])]
    if output is Format.JSON:
        typer.echo(json.dumps(listed if known is None else listed[0]))
        return
    console = PlainConsole()
    for algorithm in listed:
        console.print(_overview(algorithm))
        console.print(_parameters(algorithm))


def describe_algorithms() -> list[dict[str, Any]]:
    """Every algorithm with its profile and its parameters, as `--format json` prints them."""
    return [
        {
            "name": name,
            "package": package_of(name),
            "summary": settings.profile.summary,
            "partitions": list(settings.profile.partitions),
            "losses": list(settings.profile.losses),
            "privacy": list(settings.profile.privacy),
            "certificate": settings.profile.certified,
            "encrypted": list(settings.profile.encrypted),
            "encrypted_if_sealed": list(settings.profile.sealed),
            "server_sees": dict(settings.profile.visible),
            "parameters": [
                {"name": parameter, "default": default, "meaning": meaning}
                for parameter, (default, meaning) in settings.parameters().items()
            ],
        }
        for name, settings in SETTINGS.items()
    ]


def _overview(algorithm: dict[str, Any]) -> Table:
    table = Table(title=algorithm["name"], show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("what it does", algorithm["summary"])
    if algorithm["package"]:
        table.add_row("brought by", algorithm["package"])
    table.add_row("shards", ", ".join(algorithm["partitions"]))
    table.add_row("losses", ", ".join(algorithm["losses"]))
    table.add_row("privacy", ", ".join(algorithm["privacy"]))
    table.add_row("certificate", "duality gap" if algorithm["certificate"] else "none")
    table.add_row("encrypted", "; ".join(algorithm["encrypted"]))
    if algorithm["encrypted_if_sealed"]:
        table.add_row("encrypted if sealed", "; ".join(algorithm["encrypted_if_sealed"]))
    table.add_row("the server sees", "; ".join(f"{what}: {when}" for what, when in algorithm["server_sees"].items()))
    return table


def _parameters(algorithm: dict[str, Any]) -> Table:
    table = Table("parameter", "default", "meaning")
    for parameter in algorithm["parameters"]:
        default = parameter["default"]
        table.add_row(parameter["name"], "–" if default is None else str(default), parameter["meaning"])
    return table
