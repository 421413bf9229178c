"""`fenchel server`: the process that runs the rounds."""

import json
import logging
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from fenchel_common.identity import Address, Kit
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.output import Format
from fenchel_server.app import serve

DEFAULT_PORT = 9092
EXIT_INCOMPLETE = 1


def register(app: typer.Typer) -> None:
    app.command("server")(server)


def server(
    kit: Annotated[Path, typer.Option(help="The server's kit, from `fenchel provision`.")],
    state: Annotated[Path, typer.Option(help="Where runs and rounds are kept; a restart goes on from here.")],
    run: Annotated[Path | None, typer.Option(help="The TOML file of a run to do, or to go on with.")] = None,
    listen: Annotated[
        str | None, typer.Option(help=f"HOST:PORT to listen on. Default: 0.0.0.0:{DEFAULT_PORT}.")
    ] = None,
    stay: Annotated[bool, typer.Option(help="Stay when all runs are over, and wait for the next one.")] = False,
    insecure: Annotated[bool, typer.Option(help="No TLS: for debugging on loopback alone.")] = False,
    output: Annotated[Format, typer.Option("--format", help="How events are written to stdout.")] = Format.TABLE,
) -> None:
    """Run the rounds of a federation. The parties' clients connect to this process; it connects to nobody.

    Ends by itself when its runs are over, and tells the clients to do the same. Exit code 0: all runs completed;
    1: a run stopped short, and `fenchel runs show` says why; 2: bad input.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, _leave)
    loaded = Kit.load(kit)
    address = Address.parse(listen) if listen else Address("127.0.0.1" if insecure else "0.0.0.0", DEFAULT_PORT)  # noqa: S104 - a server listens
    config = RunConfig.from_toml(run) if run else None
    completed = serve(
        loaded,
        state,
        config=config,
        address=address,
        stay=stay,
        insecure=insecure,
        announce=_print_json if output is Format.JSON else _print_line,
    )
    if not completed:
        raise typer.Exit(EXIT_INCOMPLETE)


def _leave(signum: int, _frame: FrameType | None) -> None:
    """What is committed is kept; the next start goes on from there."""
    sys.exit(128 + signum)


def _print_json(event: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _print_line(event: Mapping[str, object]) -> None:
    kind = event["event"]
    if kind == "phase":
        return
    if kind == "listening":
        line = f"listening on port {event['port']} for {', '.join(map(str, _list(event['parties'])))}"
    elif kind == "waiting":
        line = f"run {event['run']}: waiting for {', '.join(map(str, _list(event['for'])))}"
    elif kind == "round":
        line = f"run {event['run']}: round {event['round']}, {event['seconds']:.2f} s"
        if event["gap"] is not None:
            line += f", gap {event['gap']:.3e}, accuracy {event['accuracy']:.4f}"
        if event["absences"]:
            line += f", without {event['absences']}"
    else:
        line = f"run {event['run']} ({event['name']}) {event['status']}: {event['reason']}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
