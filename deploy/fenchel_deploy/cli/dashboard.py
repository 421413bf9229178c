"""`fenchel dashboard`: a page that shows the runs of a server, or the work of a party, as they go on."""

import json
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format
from fenchel_deploy.dashboard.access import Access, Guard
from fenchel_deploy.dashboard.app import party_page, server_page
from fenchel_deploy.dashboard.partystate import PartyState
from fenchel_deploy.dashboard.serving import names_of, serve_page
from fenchel_deploy.dashboard.state import StateView

TOKEN_VARIABLE = "FENCHEL_DASHBOARD_TOKEN"  # noqa: S105 the name of a variable
DEFAULT_LISTEN = "localhost:8440"


def register(app: typer.Typer) -> None:
    app.command("dashboard", epilog=epilog("dashboard"))(dashboard)


def dashboard(
    state: Annotated[Path | None, typer.Option(metavar="DIR", help="The server's state folder.")] = None,
    party: Annotated[Path | None, typer.Option(metavar="DIR", help="Instead: a party's state folder.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = DEFAULT_LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the token that the page asks for. Or set {TOKEN_VARIABLE}."),
    ] = None,
    tls: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="CERTIFICATE KEY", help="Two PEM files: serve the page over TLS."),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A further host name under which browsers ask for the page; repeatable."),
    ] = None,
    kit: Annotated[Path | None, typer.Option(help="The kit: the page says until when it is valid.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show runs as a page in the browser: live, offline, and without writing anything.

    On the loopback address anybody on this machine can look; with a token, whoever has it. Beyond this machine the page
    needs a token and TLS.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    if (state is None) == (party is None):
        raise InvalidInput("name either a server's state folder by --state, or a party's by --party")
    address = Address.parse(listen)
    certificate, key = tls or (None, None)
    known = {name.lower() for name in names or ()} | (names_of(certificate) if certificate else frozenset())
    access = Access.at(address, token=_token(token_file), tls=tls is not None, names=known)
    page = _page(state, party, kit, access)
    serve_page(page, address, certificate=certificate, key=key, listening=lambda found: _tell(found, output))


def _page(state: Path | None, party: Path | None, kit: Path | None, access: Access) -> Guard:
    """The page of a server's state folder, or of a party's."""
    if state is not None:
        return server_page(StateView(state, kit=kit), access)
    assert party is not None
    return party_page(PartyState(party, kit=kit), access)


def _tell(address: str, output: Format) -> None:
    if output is Format.JSON:
        typer.echo(json.dumps({"event": "listening", "address": address}))
    else:
        typer.echo(f"dashboard at {address}")


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidInput(f"--token-file: {file} cannot be read: {error.strerror}") from error
    if not token:
        raise InvalidInput(f"--token-file: {file} is empty")
    return token
