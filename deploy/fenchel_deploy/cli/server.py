"""`fenchel server`: the process that runs the rounds."""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fenchel_common.identity import Address, Kit
from fenchel_common.processmemory import keep_heaps_small
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.eventlines import ALL_INTERFACES, line_of
from fenchel_deploy.cli.logs import LogFormat, LogFormatOption, VerboseOption, log_line, log_to_stderr
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import MetricsOption, TracesOption, UntilInputEndsOption, metrics_address
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.runviews import cost_rows, exit_code_of, score_rows
from fenchel_deploy.cli.serverwatch import measured, traced
from fenchel_deploy.cli.signals import end_with_input, exit_on
from fenchel_deploy.keys import key_in_words
from fenchel_deploy.logs import Place, last_errors_kept
from fenchel_server import transport
from fenchel_server.app import FAREWELL_S, serve
from fenchel_server.release import ReleaseSummary
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store import RunStatus


def register(app: typer.Typer) -> None:
    app.command("server", epilog=epilog("server"))(server)


def server(
    kit: Annotated[Path, typer.Option(help="The server's kit, from `fenchel provision`.")],
    state: Annotated[Path, typer.Option(help="Folder in which runs and rounds are kept; a restart continues from it.")],
    run: Annotated[
        list[Path] | None,
        typer.Option(help="The TOML file of a run to begin or to continue; may be given several times, for several."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT to listen on. Default: what the kit says ([server] listen in federation.toml), or all"
            " interfaces on the port that parties dial."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="A folder for the figures of each run that ends, and for models that parties release to it."),
    ] = None,
    farewell: Annotated[
        float,
        typer.Option(
            min=0, max=86_400, help="Seconds to wait, when all runs are over, until every party has been told."
        ),
    ] = FAREWELL_S,
    stay: Annotated[bool, typer.Option(help="Stay when all runs are over, and wait for the next one.")] = False,
    supervised: Annotated[
        bool,
        typer.Option(
            help="For a supervisor that restarts what fails: exit with 0 also if a run is exhausted or diverged, which "
            "no restart changes."
        ),
    ] = False,
    insecure: Annotated[bool, typer.Option(help="No TLS: for debugging on loopback alone.")] = False,
    output: Annotated[Format, typer.Option("--format", help="How events are written to stdout.")] = Format.TABLE,
    until_input_ends: UntilInputEndsOption = False,
    metrics: MetricsOption = None,
    traces: TracesOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Run the rounds of a federation. The parties' clients connect to this process; it connects to nobody.

    Ends when its runs are over, and tells the clients to end. The result of a run that is over when the server starts
    is printed once more.
    """
    keep_heaps_small(heaps=os.cpu_count() or 1)
    place = Place()
    log_to_stderr(log_format, place, verbose=verbose)
    # Committed rounds are kept, and the next start continues after the last of them.
    exit_on(signal.SIGTERM)
    if until_input_ends:
        end_with_input()
    loaded = Kit.load(kit)
    place.party = loaded.name
    address = Address.parse(listen) if listen else _default_address(loaded, insecure=insecure)
    configs = [RunConfig.from_toml(path) for path in run or ()]
    announce = _print_json if output is Format.JSON else _print_lines

    one_at_a_time = threading.Lock()
    listen_here = partial(transport.listen, insecure=insecure)
    with (
        last_errors_kept(state, place),
        measured(metrics_address(metrics), listen_here) as (listen_measured, observe),
        traced(traces) as (around, trace),
    ):

        def tell(event: Mapping[str, Any]) -> None:
            with one_at_a_time:
                _move(place, event)
                observe(event)
                trace(event)
                announce(event)

        ended = serve(
            loaded,
            state,
            configs=configs,
            address=address,
            listen=listen_measured,
            stay=stay,
            announce=tell,
            results=results,
            farewell_s=farewell,
            around=around,
        )
    if code := exit_code_of(ended - {RunStatus.EXHAUSTED, RunStatus.DIVERGED} if supervised else ended):
        raise typer.Exit(code)


def _move(place: Place, event: Mapping[str, Any]) -> None:
    """Notes the run, round and phase of an event; `leaving` and `listening` are of no run, `parties` of whichever."""
    if event["event"] == "parties":
        return
    round_id = event.get("round", place.round if event["event"] in ("warning", "ready") else None)
    place.move(run=event.get("run"), round_id=round_id, phase=event.get("phase"))


def _default_address(kit: Kit, *, insecure: bool) -> Address:
    if kit.settings.listen is not None:
        return kit.settings.listen
    return Address("127.0.0.1" if insecure else ALL_INTERFACES, kit.server_address.port)


def _print_json(event: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _print_lines(event: Mapping[str, Any]) -> None:
    if event["event"] == "ended" and event["outcome"] is not None:
        _print_result(event)
    if (line := line_of(event)) is not None:
        sys.stdout.write(log_line(line.text, line.level) + "\n")
        sys.stdout.flush()


def _print_result(event: Mapping[str, Any]) -> None:
    outcome = RunOutcome.from_mapping(event["outcome"])
    certificate = outcome.certificate
    rows = {
        "objective P(w)": _figure(certificate.primal, ".9f"),
        "lower bound D(α)": _figure(certificate.dual, ".9f"),
        "duality gap, the proof": _figure(certificate.gap, ".2e"),
        **({} if certificate.accuracy is None else {"accuracy": f"{certificate.accuracy:.4f}"}),
        **({} if certificate.rmse is None else {"RMSE": f"{certificate.rmse:.4g}"}),
        **({} if certificate.r2 is None else {"R²": f"{certificate.r2:.4f}"}),
        **({} if certificate.scores is None else score_rows(asdict(certificate.scores))),
        "rounds × round trips": f"{outcome.rounds} × {outcome.rtc_per_round or '–'}",
        "key": key_in_words(event["key_bits"], cipher=event["cipher"]),
    }
    if outcome.release is not None:
        rows |= _release_rows(event["run"], outcome.release)
    rows |= {name: whole for name, whole, _ in cost_rows(event["outcome"])}
    table = Table(title=event["name"], show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    PlainConsole(file=sys.stdout).print(table)


def _release_rows(run: str, release: ReleaseSummary) -> dict[str, str]:
    rows = {"model": f"{run}.model.npz" if release.whole else f"not released: {release.reason}"}
    if noise := release.noise:
        rows["its noise"] = f"σ = {noise.sigma:.3g}, (ε, δ) = ({noise.epsilon:g}, {noise.delta:g})"
    return rows


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
