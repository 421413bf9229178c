"""`fenchel client`: one organisation's process, beside its data."""

import logging
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fenchel_client.concessions import Concession, explained
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.session import Session
from fenchel_client.transport.dial import GrpcDial
from fenchel_client.workers import LOCAL, cluster_at
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.privacy import CIPHERS
from fenchel_common.processmemory import keep_heaps_small
from fenchel_deploy.cli.choices import parse_choice
from fenchel_deploy.cli.clientwatch import measured, traced
from fenchel_deploy.cli.logs import LogFormat, LogFormatOption, VerboseOption, log_to_stderr
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import DATA_HELP, MetricsOption, TracesOption, UntilInputEndsOption, metrics_address
from fenchel_deploy.cli.partylog import Progress, WatchedParty, own_view, waits_told
from fenchel_deploy.cli.signals import end_with_input
from fenchel_deploy.logs import Place, last_errors_kept
from fenchel_deploy.owntable import OwnTable, check_party
from fenchel_deploy.standing import standing_kept

log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    app.command("client", epilog=epilog("client"))(client)


def client(
    kit: Annotated[Path, typer.Option(help="This party's kit, from `fenchel provision` or `fenchel cert approve`.")],
    data: Annotated[Path, typer.Option(help=DATA_HELP)],
    state: Annotated[Path, typer.Option(help="A private folder for the run's key and this party's part of the model.")],
    server: Annotated[str | None, typer.Option(help="HOST:PORT of the server, if not the kit's.")] = None,
    approve_roster: Annotated[
        str | None,
        typer.Option(
            help="Fingerprint of the roster for which this key holder may make keys; `kit`: any roster in its kit."
        ),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            envvar="FENCHEL_ACCEPT",
            help="Also take part in runs that protect less; repeatable. Without it: only sealed runs with a standard "
            f"key of 3072 bits and pseudonyms by ECDH. The words: {explained()}.",
        ),
    ] = None,
    accept_cipher: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CIPHER",
            help="Take part only in runs with this cipher; repeatable. Without it: paillier and masks.",
        ),
    ] = None,
    workers: Annotated[
        str,
        typer.Option(
            help="Where long vectors are encrypted and decrypted: `local`, the cores of this machine; `ray`, the Ray "
            "cluster of which it is a node; or HOST:PORT of the head of that cluster."
        ),
    ] = LOCAL,
    rows_on_workers: Annotated[
        bool,
        typer.Option(
            "--rows-on-workers",
            help="The workers also read and hold the rows of a table of many Parquet files; this process has none.",
        ),
    ] = False,
    insecure: Annotated[bool, typer.Option(help="No TLS: for debugging on loopback alone.")] = False,
    until_input_ends: UntilInputEndsOption = False,
    metrics: MetricsOption = None,
    traces: TracesOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Take part in a federation with the shard at DATA. Connects to the server, until the server dismisses it."""
    keep_heaps_small(heaps=1)
    place = Place()
    log_to_stderr(log_format, place, verbose=verbose)
    address, metered_at = Address.parse(server) if server else None, metrics_address(metrics)
    loaded = Kit.load(kit)
    place.party = loaded.name
    cluster = cluster_at(workers)
    if rows_on_workers and cluster is None:
        raise InvalidInput("--rows-on-workers: name the cluster by --workers")
    table = OwnTable(data, cluster.holders if cluster is not None and rows_on_workers else None)
    shard = table.read()
    accepts = frozenset(Concession(parse_choice("--accept", word, *Concession)) for word in accept or ())
    ciphers = frozenset(parse_choice("--accept-cipher", word, *CIPHERS) for word in accept_cipher or CIPHERS)
    consent = Consent(approved_roster=approve_roster, accepts=accepts, ciphers=ciphers)
    check_party(loaded, shard, consent, data=data)
    kit_in_use = LiveKit(loaded)
    party = Party(kit_in_use, shard, state=state, consent=consent, newer=table.newer, cluster=cluster)
    log.info("the server is at %s", address or loaded.server_address)
    progress = Progress(state, lambda: party.last_gap)
    del shard  # The party has its own copy of the matrix, and the two can be large.
    with (
        last_errors_kept(state, place),
        own_view(loaded.name, log_format) as show,
        standing_kept(state, loaded.name, show) as tell,
    ):
        watched = WatchedParty(party, place, progress, tell)
        with (
            traced(traces, party, watched.handle, name=loaded.name) as handler,
            measured(metered_at, kit_in_use, party, handler) as (handle, attend),
        ):
            session = Session(
                kit_in_use,
                handle,
                idle=party.idle,
                limit=watched.task_limit,
                dial=GrpcDial(address, insecure=insecure),
            )
            attend(session)
            signal.signal(signal.SIGTERM, lambda *_: session.stop())
            if until_input_ends:
                end_with_input()
            with waits_told(progress, kit_in_use, address, tell) if not insecure else nullcontext():
                end = session.run()
            log.info("%s: %s", end.kind.value, end.reason)
        if (failure := watched.failure_at(end)) is not None:
            raise failure
