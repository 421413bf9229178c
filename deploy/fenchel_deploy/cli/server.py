"""`fenchel server`: the process that runs the rounds."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.metrics import RoundMetrics
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.logs import LogFormat, LogFormatOption, VerboseOption, log_to_stderr
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import MetricsOption, metrics_address
from fenchel_deploy.cli.output import Format, printable
from fenchel_deploy.cli.runviews import key_in_words
from fenchel_deploy.cli.signals import exit_on
from fenchel_deploy.cli.times import clock_time
from fenchel_deploy.logs import Place, last_errors_kept
from fenchel_server import transport
from fenchel_server.app import FAREWELL_S, Listen, serve
from fenchel_server.release import ReleaseSummary
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store.base import WITH_MODEL, RunStatus

ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - a server listens


def register(app: typer.Typer) -> None:
    app.command("server", epilog=epilog("server"))(server)


def server(
    kit: Annotated[Path, typer.Option(help="The server's kit, from `fenchel provision`.")],
    state: Annotated[Path, typer.Option(help="Folder in which runs and rounds are kept; a restart continues from it.")],
    run: Annotated[Path | None, typer.Option(help="The TOML file of a run to begin or to continue.")] = None,
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
    insecure: Annotated[bool, typer.Option(help="No TLS: for debugging on loopback alone.")] = False,
    output: Annotated[Format, typer.Option("--format", help="How events are written to stdout.")] = Format.TABLE,
    metrics: MetricsOption = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Run the rounds of a federation. The parties' clients connect to this process; it connects to nobody.

    Ends when its runs are over, and tells the clients to end. The result of a run that is over when the server starts
    is printed once more.
    """
    place = Place()
    log_to_stderr(log_format, place, verbose=verbose)
    # Committed rounds are kept, and the next start continues after the last of them.
    exit_on(signal.SIGTERM)
    loaded = Kit.load(kit)
    place.party = loaded.name
    address = Address.parse(listen) if listen else _default_address(loaded, insecure=insecure)
    config = RunConfig.from_toml(run) if run else None
    announce = _print_json if output is Format.JSON else _print_lines

    listen_here = partial(transport.listen, insecure=insecure)
    with last_errors_kept(state, place), _measured(metrics_address(metrics), listen_here) as (listen_measured, observe):

        def tell(event: Mapping[str, Any]) -> None:
            _move(place, event)
            observe(event)
            announce(event)

        ended = serve(
            loaded,
            state,
            config=config,
            address=address,
            listen=listen_measured,
            stay=stay,
            announce=tell,
            results=results,
            farewell_s=farewell,
        )
    if code := _exit_code(ended):
        raise typer.Exit(code)


def _exit_code(ended: frozenset[RunStatus]) -> ExitCode:
    """The exit code of a server whose runs ended so."""
    if ended <= {RunStatus.COMPLETED}:
        return ExitCode.DONE
    return ExitCode.EXHAUSTED if ended <= WITH_MODEL else ExitCode.MISSED


@contextmanager
def _measured(
    address: Address | None, listen: Callable[..., transport.GrpcTransport]
) -> Iterator[tuple[Listen, Callable[[Mapping[str, Any]], None]]]:
    """How the server listens and who observes its events; with an address, both feed the metrics served there."""
    if address is None:
        yield listen, lambda _: None
        return
    # A server without metrics needs neither the memory nor the time to load these.
    from fenchel_deploy.monitoring.endpoint import metrics_served
    from fenchel_deploy.monitoring.servermetrics import ServerMetrics

    metrics = ServerMetrics()

    def listen_measured(kit: LiveKit, *, address: Address) -> transport.GrpcTransport:
        listener = listen(kit, address=address)
        metrics.attend(listener, kit)
        return listener

    with metrics_served(metrics.registry, address):
        yield listen_measured, metrics.observe


def _move(place: Place, event: Mapping[str, Any]) -> None:
    """Notes the run, round and phase of an event; `leaving` and `listening` are of no run."""
    round_id = event.get("round", place.round if event["event"] == "warning" else None)
    place.move(run=event.get("run"), round_id=round_id, phase=event.get("phase"))


def _default_address(kit: Kit, *, insecure: bool) -> Address:
    if kit.settings.listen is not None:
        return kit.settings.listen
    return Address("127.0.0.1" if insecure else ALL_INTERFACES, kit.server_address.port)


def _print_json(event: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _print_lines(event: Mapping[str, Any]) -> None:
    kind = event["event"]
    if kind == "phase":
        return
    if kind == "listening":
        host = Address.parse(event["address"]).host
        where = "all interfaces" if host in (ALL_INTERFACES, "::") else f"{host} only"
        line = f"listening on {where}, port {event['port']}, for {', '.join(event['parties'])}"
    elif kind == "waiting":
        line = f"run {event['run']}: waiting for {', '.join(_missing(event))}"
    elif kind == "leaving":
        line = f"all runs are over; waiting up to {event['within_s']:g} s for {', '.join(event['for'])} to hear so"
    elif kind == "round":
        number = "closing round" if event["closing"] else f"round {event['round']}"
        line = f"run {event['run']}: {number}, {event['seconds']:.2f} s"
        metrics = RoundMetrics.from_mapping(event)
        if metrics.measured:
            known = f"P(w) {metrics.primal:.6f}" if metrics.gap is None else f"gap {metrics.gap:.3e}"
            line += f", {known}, {metrics.fit}"
        if metrics.absences:
            line += f", without {metrics.absences}"
    else:
        line = f"run {event['run']} ({event['name']}) {event['status']}: {event['reason']}"
        if event["outcome"] is not None:
            _print_result(event)
    sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()


def _missing(event: Mapping[str, Any]) -> list[str]:
    """The parties that are waited for, each with the time since which it is not connected."""
    since = {name: f" (not connected since {clock_time(at)})" for name, at in event["since"].items()}
    return [f"{name}{since.get(name, '')}" for name in event["for"]]


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
        "rounds × round trips": f"{outcome.rounds} × {outcome.rtc_per_round or '–'}",
        "key": key_in_words(event["key_bits"], cipher=event["cipher"]),
    }
    if outcome.release is not None:
        rows |= _release_rows(event["run"], outcome.release)
    rows |= {f"{kind}, seconds": f"{seconds:.2f}" for kind, seconds in outcome.seconds.items()}
    rows |= {"bytes up": f"{outcome.bytes.up:,}", "bytes down": f"{outcome.bytes.down:,}"}
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
