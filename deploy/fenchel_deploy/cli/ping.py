"""`fenchel ping`: measures the round trip to the server."""

import json
import statistics
from pathlib import Path
from typing import Annotated

import typer

from fenchel_client.transport.roundtrip import round_trips_s
from fenchel_common.identity import Address, Kit
from fenchel_deploy.cli.health import ANSWER_S, unreached_told
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format


def register(app: typer.Typer) -> None:
    app.command("ping", epilog=epilog("ping"))(ping)


def ping(
    kit: Annotated[Path, typer.Option(help="This party's kit.")],
    server: Annotated[str | None, typer.Option(help="HOST:PORT of the server, if not the kit's.")] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many round trips to measure.")] = 5,
    timeout: Annotated[float, typer.Option(min=0.1, max=600, help="Seconds to wait for each answer.")] = ANSWER_S,
    output: FormatOption = Format.TABLE,
) -> None:
    """Measure the round trip to the server, as a party's messages make it: over mutual TLS, on an open connection.

    A round takes this time for each of its round trips, and the time of the work.
    """
    loaded = Kit.load(kit)
    address = Address.parse(server) if server else loaded.server_address
    with unreached_told(address, timeout_s=timeout):
        measured = round_trips_s(loaded, address=address, count=count, timeout_s=timeout)
    median_s = statistics.median(measured)
    if output is Format.JSON:
        typer.echo(json.dumps({"median_s": median_s, "round_trips_s": measured}))
    else:
        typer.echo(f"{median_s * 1000:.1f} ms a round trip (median of {count})")
