"""`fenchel relay`: delays connections as a wide-area network would, to try a federation."""

import asyncio
import json
import signal
import sys
from typing import Annotated

import typer

from fenchel_common.identity import Address
from fenchel_deploy.cli.logs import log_to_stderr
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format
from fenchel_deploy.relay import Line, Relay

BYTES_PER_MBIT = 125_000


def register(app: typer.Typer) -> None:
    app.command("relay", epilog=epilog("relay"))(relay)


def relay(
    listen: Annotated[str, typer.Option(help="HOST:PORT to take connections on; port 0 for any free one.")],
    to: Annotated[str, typer.Option(help="HOST:PORT to relay them to: the server's.")],
    delay_ms: Annotated[float, typer.Option(help="Delay each way: half of the round trip.")] = 0.0,
    mbit: Annotated[float | None, typer.Option(help="Mbit/s of each connection each way. Default: no limit.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Relay TCP connections with the latency, and the bandwidth, of a wide-area network.

    The relay sees the ciphertext of TLS and nothing else. Clients dial the relay instead of the server. Ends on SIGTERM
    or SIGINT.
    """
    log_to_stderr()
    line = Line(delay_ms / 1000, None if mbit is None else mbit * BYTES_PER_MBIT)
    asyncio.run(_relay(Address.parse(listen), Address.parse(to), line, output=output))


async def _relay(listen: Address, target: Address, line: Line, *, output: Format) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Relay(target, line).listening(listen) as port:
        if output is Format.JSON:
            typer.echo(json.dumps({"port": port, "to": str(target), "delay_s": line.delay_s}))
        else:
            typer.echo(f"relaying port {port} to {target}, {line.delay_s * 1000:g} ms each way")
        sys.stdout.flush()
        await ended.wait()
