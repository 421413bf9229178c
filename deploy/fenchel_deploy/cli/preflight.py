"""`fenchel preflight`: checks whether this machine, this kit and this data are ready to take part."""

from pathlib import Path
from typing import Annotated

import typer

from fenchel_deploy.check import Check, Status
from fenchel_deploy.cli.checks import check_as_json, check_as_lines
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import DATA_HELP, FormatOption
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.preflight import run_checks


def preflight(
    kit: Annotated[Path, typer.Argument(help="The kit to check.", metavar="KIT")],
    data: Annotated[
        Path | None, typer.Option("--data", help=f"{DATA_HELP} It is checked as well, and nothing of it is sent.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run's run.toml, to check the labels against its loss as well.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=60.0, help="Seconds to wait for the server.", metavar="SECONDS")
    ] = 5.0,
    output: FormatOption = Format.TABLE,
) -> None:
    """Check clock, certificate, roster, server address, TLS and data, and say what to do about each problem.

    A server's kit is checked without connecting anywhere.
    """
    checks: list[Check] = []
    for check in run_checks(kit, data=data, run=run, timeout_s=timeout):
        checks.append(check)
        if output is Format.TABLE:
            typer.echo(check_as_lines(check))
    ready = all(check.status is not Status.FAIL for check in checks)
    if output is Format.JSON:
        print_json({"ready": ready, "checks": [check_as_json(check) for check in checks]})
    if not ready:
        typer.echo("not ready: cure the first failure, then run this command again", err=True)
        raise typer.Exit(ExitCode.MISSED)


def register(app: typer.Typer) -> None:
    app.command(epilog=epilog("preflight"))(preflight)
