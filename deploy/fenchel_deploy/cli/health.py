"""`fenchel health`: asks whether the server answers and can run a round; for health checks and for people."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fenchel_client.transport.health import ask_health
from fenchel_common.errors import TransientError
from fenchel_common.identity import Address, Kit
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json, printable
from fenchel_deploy.times import clock_time, utc

ANSWER_S = 1.5
"""So short that the whole command takes no more than 3 s; a slow network needs more."""


def register(app: typer.Typer) -> None:
    app.command("health", epilog=epilog("health"))(health)


def health(
    kit: Annotated[Path, typer.Option(help="A kit of the federation: a party's, or the server's own.")],
    server: Annotated[str | None, typer.Option(help="HOST:PORT of the server, if not the kit's.")] = None,
    live: Annotated[bool, typer.Option(help="Exit with 0 if the server answers, even without a round to run.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, max=600, help="Seconds to wait for an answer.")] = ANSWER_S,
    output: FormatOption = Format.TABLE,
) -> None:
    """Ask the server's health service, over mutual TLS, whether it can run a round now.

    It can if enough parties of a run are connected.
    """
    loaded = Kit.load(kit)
    address = Address.parse(server) if server else loaded.server_address
    with unreached_told(address, timeout_s=timeout):
        found = ask_health(loaded, address=address, timeout_s=timeout)
    missing = [f"{party} (since {clock_time(since)})" for party, since in found.missing.items()]
    if output is Format.JSON:
        print_json({"serving": found.serving, "missing": {name: utc(since) for name, since in found.missing.items()}})
    else:
        state = "serving" if found.serving else "alive, but no round can run now"
        typer.echo(f"{state}; not connected: {', '.join(missing)}" if missing else state)
    if not found.serving and not live:
        raise typer.Exit(ExitCode.MISSED)


@contextmanager
def unreached_told(address: Address, *, timeout_s: float) -> Iterator[None]:
    """Ends the command with `ExitCode.MISSED` and plain words if the server cannot be reached in the context."""
    try:
        yield
    except TransientError as error:
        waited = f"waited {timeout_s:g} s at most; --timeout changes that"
        typer.echo(printable(f"the server at {address} cannot be reached: {error} ({waited})"), err=True)
        raise typer.Exit(ExitCode.MISSED) from None
