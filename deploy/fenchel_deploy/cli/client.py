"""`fenchel client`: one organisation's process, beside its data."""

import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from fenchel_client.concessions import Concession, explained
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.session import Session
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_deploy.cli.choices import parse_choice
from fenchel_deploy.cli.output import log_to_stderr

log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    app.command("client")(client)


def client(
    kit: Annotated[Path, typer.Option(help="This party's kit, from `fenchel provision` or `fenchel cert approve`.")],
    data: Annotated[Path, typer.Option(help="This party's shard: .npz with ids, features, X (or CSR parts), maybe y.")],
    state: Annotated[Path, typer.Option(help="A private folder for the run's key and the resulting model.")],
    server: Annotated[str | None, typer.Option(help="HOST:PORT of the server, if not the kit's.")] = None,
    approve_roster: Annotated[
        str | None,
        typer.Option(
            help="Fingerprint of the roster for which this key holder may make keys; or `kit`, for any of its own."
        ),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            envvar="FENCHEL_ACCEPT",
            help="Take part in runs that protect less, too; repeatable. Without it: sealed runs with a standard key of "
            f"3072 bits and pseudonyms by ECDH, and no others. The words: {explained()}.",
        ),
    ] = None,
    insecure: Annotated[bool, typer.Option(help="No TLS: for debugging on loopback alone.")] = False,
) -> None:
    """Take part in a federation with the data at hand. Connects out to the server, for ever, until dismissed.

    Exit code 0: the server dismissed the party, or it was told to stop; 2: bad input, or refused for good.
    """
    log_to_stderr()
    loaded = Kit.load(kit)
    shard = Shard.load(data)
    if loaded.roster.party(loaded.name).labels and shard.y is None:
        raise InvalidInput(f"{data} has no labels (y), but the roster says that {loaded.name} has them")
    accepts = frozenset(Concession(parse_choice("--accept", word, *Concession)) for word in accept or ())
    consent = Consent(approved_roster=approve_roster, accepts=accepts)
    if loaded.roster.key_holder.name == loaded.name and not consent.approves(loaded.roster):
        raise InvalidInput(
            f"{loaded.name} makes the key for everyone on the roster: {', '.join(loaded.roster.names)}; "
            f"if these are the right ones, add --approve-roster {loaded.roster.fingerprint()}"
        )
    kit_in_use = LiveKit(loaded)
    party = Party(kit_in_use, shard, state=state, consent=consent)
    del shard  # The party has its own copy of the matrix, and the two can be large.
    session = Session(
        kit_in_use,
        party.handle,
        idle=party.idle,
        limit=party.task_limit,
        dial=GrpcDial(Address.parse(server) if server else None, insecure=insecure),
    )
    signal.signal(signal.SIGTERM, lambda *_: session.stop())
    end = session.run()
    log.info("%s: %s", end.kind.value, end.reason)
