"""`fenchel doctor`: gathers what a report of a fault needs, free of secrets."""

from pathlib import Path
from typing import Annotated

import typer

from fenchel_deploy.check import Check, Status
from fenchel_deploy.cli.checks import check_as_json, check_as_lines
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.doctor import examine


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog=epilog("doctor"))(doctor)


def doctor(
    kit: Annotated[Path | None, typer.Option(help="A party's kit, or the server's.")] = None,
    state: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="The state folder of a server or of a party; repeatable.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Gather what a report of a fault needs: versions, machine, clock, kit, state and last errors.

    Nothing of keys, models, rows, sample ids or feature names is in it. Names of parties and runs, paths, and reasons
    that parties gave are: read it before you send it. Nothing is sent anywhere.
    """
    found: list[Check] = []
    for check in examine(kit, state or []):
        found.append(check)
        if output is Format.TABLE:
            typer.echo(check_as_lines(check))
    if output is Format.JSON:
        print_json({"checks": [check_as_json(check) for check in found]})
    if any(check.status is Status.FAIL for check in found):
        raise typer.Exit(ExitCode.MISSED)
