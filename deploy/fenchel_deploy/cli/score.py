"""`fenchel score`: a party's part of the scores of rows whose columns several parties have."""

import logging
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fenchel_client.askedrows import ScoringLimits
from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent, ScoringConsent
from fenchel_client.party import Party
from fenchel_client.privatefiles import read_private, write_private
from fenchel_client.session import Session
from fenchel_client.statefolder import SCORES
from fenchel_client.task import Task
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import FederationFailed
from fenchel_common.identity import Kit, LiveKit
from fenchel_common.model import find_model
from fenchel_common.model.rows import TableRules, read_rows
from fenchel_deploy.cli.logs import LogFormat, LogFormatOption, VerboseOption, log_to_stderr
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.output import printable
from fenchel_deploy.cli.partylog import Progress, waits_told
from fenchel_deploy.logs import Place
from fenchel_deploy.prediction import scores_csv
from fenchel_deploy.scoring import predictions_of, scoring_shard

USUAL = ScoringLimits()

log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    app.command("score", epilog=epilog("score"))(score)


def score(
    table: Annotated[
        Path, typer.Argument(help="This party's columns of the rows; those of the asking party are scored.")
    ],
    kit: Annotated[Path, typer.Option(help="This party's kit.")],
    state: Annotated[Path, typer.Option(help="This party's private folder.")],
    model: Annotated[Path, typer.Option(help="This party's part of the model: RUN.model/, or a folder that has it.")],
    ask: Annotated[Path | None, typer.Option(help="Ask for the scores, and write them to this CSV file.")] = None,
    fewest_rows: Annotated[
        int, typer.Option(min=1, help="Give no part of the scores of fewer rows, or of sets that differ in fewer.")
    ] = USUAL.fewest,
    most_rows: Annotated[
        int, typer.Option(min=1, help="Give no part of the scores of more rows by this model, in all runs together.")
    ] = USUAL.most,
    approve_roster: Annotated[
        str | None, typer.Option(help="As for `fenchel client`, at the key holder.", metavar="FINGERPRINT")
    ] = None,
    accept: Annotated[
        list[Concession] | None, typer.Option(help="As for `fenchel client`; repeatable.", metavar="WORD")
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Take part in a scoring run. The asking party alone learns the scores of its rows.

    Connects to the server and works until it is dismissed. Rows that other parties hold too get the sum of all parts.
    """
    place = Place()
    log_to_stderr(log_format, place, verbose=verbose)
    loaded = Kit.load(kit)
    place.party = loaded.name
    part = find_model(model)
    rows = read_rows([table], part.record, TableRules())
    for note in rows.notes:
        typer.echo(printable(f"caution: {note}"), err=True)
    limits = ScoringLimits(fewest=fewest_rows, most=most_rows)
    consent = Consent(
        approved_roster=approve_roster,
        accepts=frozenset(accept or ()),
        scoring=ScoringConsent(part.record.run, limits),
    )
    live = LiveKit(loaded)
    party = Party(live, scoring_shard(part, rows, asks=ask is not None), state=state, consent=consent)
    progress, seen = Progress(state), set[str]()

    def handle(task: Task) -> bytes:
        seen.add(task.run)
        place.move(run=task.run, round_id=task.round, phase=task.phase)
        return party.handle(task)

    session = Session(live, handle, idle=party.idle, limit=party.task_limit, dial=GrpcDial(None, insecure=False))
    signal.signal(signal.SIGTERM, lambda *_: session.stop())
    with waits_told(progress, live, None, lambda _: None) if verbose else nullcontext():
        end = session.run()
    log.info("%s: %s", end.kind.value, end.reason)
    if ask is None:
        return
    found = [path for run in seen if (path := state / f"{run}{SCORES}").exists()]
    if not found:
        raise FederationFailed(
            f"{end.reason}, and there are no scores: a party refused its part, or was not there; the logs of the "
            "parties say which, and `fenchel runs show` why the run ended"
        )
    ids, predicted = predictions_of(part, read_private(found[-1]).decode())
    write_private(ask, scores_csv(ids, predicted).encode())
    typer.echo(f"{len(ids)} scores are in {ask}")
