"""The `fenchel` command.

Exit codes: 0 done, 1 the command ran but did not reach its goal, 2 bad input or a refusal, 130 interrupted.
Data goes to stdout; progress, warnings and errors go to stderr.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version

import typer

from fenchel_common.errors import FenchelError
from fenchel_deploy.cli.output import printable
from fenchel_deploy.confinement import keep_memory_private

VERBS = (
    "demo",
    "algorithms",
    "provision",
    "cert",
    "data",
    "preflight",
    "shard",
    "server",
    "client",
    "health",
    "runs",
    "audit",
    "bench",
    "up",
    "down",
    "ping",
    "relay",
)
"""Each is a module of this package with a function `register`."""
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


def load_verbs(words: Sequence[str]) -> None:
    """Imports the verb that the command line begins with, or all of them to list them.

    A client that carried the server, the benchmarks and Docker's library would need a fifth more memory. A list leaves
    out the verbs that need a package that is not installed.
    """
    if words and words[0] in VERBS:
        import_module(f"{__name__}.{words[0]}").register(app)
        return
    for verb in VERBS:
        with suppress(ModuleNotFoundError):
            import_module(f"{__name__}.{verb}").register(app)


def main() -> None:
    try:
        keep_memory_private()
        load_verbs(sys.argv[1:])
        app()
    except FenchelError as error:
        typer.echo(printable(f"error: {error}", keep="\n"), err=True)
        sys.exit(EXIT_REFUSED)
    except ModuleNotFoundError as error:
        typer.echo(
            f"error: this command needs the Python package {error.name}, which is not installed here; install "
            "fenchel[full], or use the image with all commands instead of the client's",
            err=True,
        )
        sys.exit(EXIT_REFUSED)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
