"""The `fenchel` command.

Exit codes: 0 done, 1 the work ran but did not reach its goal, 2 bad input or a refusal, 130 interrupted.
Data goes to stdout; progress, warnings and errors go to stderr.
"""

import sys
from importlib.metadata import version

import typer

from fenchel_common.errors import FenchelError
from fenchel_deploy.cli import bench, cert, client, demo, preflight, provision, runs, server

EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="fenchel",
    help="Train convex models over a table that nobody may bring together.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("fenchel"))
        raise typer.Exit


@app.callback()
def _options(
    _version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    pass


for _verb in (demo, provision, cert, preflight, server, client, runs, bench):
    _verb.register(app)


def main() -> None:
    try:
        app()
    except FenchelError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(EXIT_REFUSED)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
