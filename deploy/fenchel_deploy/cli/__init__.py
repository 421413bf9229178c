"""The `fenchel` command.

Data goes to stdout; progress, warnings and errors go to stderr. `exits` has the exit codes, `manual` what they mean.
"""

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

import typer

from fenchel_common.errors import FenchelError
from fenchel_deploy.cli.exits import ExitCode, code_of
from fenchel_deploy.cli.logs import VERBOSE
from fenchel_deploy.cli.output import printable
from fenchel_deploy.confinement import keep_memory_private

VERBS = (
    "demo",
    "tune",
    "algorithms",
    "provision",
    "cert",
    "data",
    "preflight",
    "shard",
    "server",
    "client",
    "predict",
    "score",
    "export",
    "health",
    "runs",
    "dashboard",
    "report",
    "compare",
    "audit",
    "bench",
    "experiment",
    "up",
    "down",
    "ping",
    "relay",
    "doctor",
)
"""Each is a module of this package with a function `register`."""
COMPLETION_WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where bash and the other shells put the command line that is to be completed."""

app = typer.Typer(
    name="fenchel",
    help="Train convex models over a table that nobody may bring together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # words in brackets, such as names of tables in TOML files, would be taken for markup
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


def prepare(words: Sequence[str]) -> None:
    """Makes this process one that can work on the command line of these words, and imports what that needs."""
    keep_memory_private()
    _silence_grpc()
    _compute_on_one_core()
    # Nothing of what is imported is garbage, and looking for it would take a tenth of the time.
    gc.disable()
    load_verbs(words)
    gc.freeze()
    gc.enable()


def main(*, prepared: bool = False) -> None:
    """Works on this process's command line, for which the process may be `prepared` already."""
    try:
        if not prepared:
            prepare(_completed_words() or sys.argv[1:])
        app()
    except FenchelError as error:
        _end(f"error: {error}", code_of(error))
    except ModuleNotFoundError as error:
        _end(
            f"error: this command needs the Python package {error.name}, which is not installed here; install "
            "fenchel[full], or use the image with all commands instead of the client's",
            ExitCode.REFUSED,
        )
    except KeyboardInterrupt:
        _end("interrupted", ExitCode.INTERRUPTED)
    except Exception:
        _end(
            f"{traceback.format_exc()}error: this is a fault of Fenchel; please report it with the lines above and the "
            "output of `fenchel doctor`",
            ExitCode.INTERNAL,
        )


def _silence_grpc() -> None:
    """Keeps gRPC's own lines, which are not for operators, out of the log; --verbose lets them in.

    gRPC reads the variable when it is loaded, which is before a command parses its options.
    """
    if VERBOSE not in sys.argv:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _compute_on_one_core() -> None:
    """Lets linear algebra use one core, unless the operator sets OPENBLAS_NUM_THREADS.

    The products of a party are small. OpenBLAS shares each of them among all cores, and its threads wait actively for
    each other: on two cores, a party then spent most of its CPU time waiting. It reads the variable when it is loaded.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _completed_words() -> list[str]:
    """The words after `fenchel` on the line that a shell wants completed, without the last; none in a usual call."""
    line = next((os.environ[name] for name in COMPLETION_WORDS if name in os.environ), "")
    return line.split()[1:-1] if "_FENCHEL_COMPLETE" in os.environ else []


def _end(message: str, code: ExitCode) -> NoReturn:
    typer.echo(printable(message, keep="\n"), err=True)
    sys.exit(code)
