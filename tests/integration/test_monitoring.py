"""Metrics, logs and traces of real processes in a whole run, and what must not be in them."""

import base64
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fenchel_client.statefolder import StateFolder
from fenchel_common.data.shard import Shard
from fenchel_common.ids import RunId
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.logs import LAST_ERRORS_FILE
from support.collector import Collector, Seen, collecting
from support.commands import run_fenchel
from support.prometheus import Prometheus, prometheus, promtool, scraped
from support.tables import named_shards, small_dataset

MONITORING = Path(__file__).resolve().parents[2] / "deploy/monitoring"
MARK = "markedword"
FIELDS = {"time", "level", "logger", "message", "run", "round", "phase", "party"}
LABELS = {"party", "kind", "way", "phase", "status", "outcome", "le", "version"}
TASK = {"party", "bytes_up", "bytes_down", "encrypt_s", "decrypt_s", "serialise_s"}
ATTRIBUTES = {
    ("fenchel-server", "run"): {"run", "algorithm", "privacy", "cipher", "status"},
    ("fenchel-server", "round"): {"round"},
    ("fenchel-server", "phase"): {"phase", "attempt"},
    ("fenchel-server", "task"): {*TASK, "compute_s"},
    ("fenchel-client", "task"): {*TASK, "run", "round", "phase"},
}
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed here (on Debian: apt-get install prometheus)",
)


@dataclass(frozen=True)
class Watched:
    """A federation whose run is over and whose processes still run."""

    directory: Path
    federation: LocalFederation
    events: list[dict[str, Any]]
    addresses: Mapping[str, str]
    """Where each process serves its metrics."""
    collector: Collector
    """Where all processes send their traces."""
    secrets: list[bytes]
    """What no text may have."""

    def log(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.federation.log(name).splitlines()]


def shards() -> dict[str, Shard]:
    """Two parties with samples in common, whose ids and feature names are marked words."""
    return {
        name: replace(
            shard,
            ids=tuple(f"{MARK}-id-{sample}" for sample in shard.ids),
            features=tuple(f"{MARK}-{feature}" for feature in shard.features),
        )
        for name, shard in named_shards(small_dataset(60, 4), grid=(1, 2)).items()
    }


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("watched")
    config = RunConfig.from_mapping(
        {"name": "watched", "settings": {"lambda": 0.5}, "key": {"bits": 2048}, "stop": {"gap": 1e-3, "rounds": 40}}
    )
    options = ["--metrics", "0", "--traces", "--log-format", "json"]
    server_options = [*options, "--stay", "--results", str(directory / "results")]
    federation = LocalFederation(directory, shards(), config, server_options=server_options, client_options=options)
    with collecting() as collector, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with federation:
            yield followed(directory, federation, collector)


def followed(directory: Path, federation: LocalFederation, collector: Collector) -> Watched:
    """Follows the run to its end; the parties' secrets are read while they still have them."""
    events = list[dict[str, Any]]()
    while not events or events[-1]["event"] != "ended":
        events.append(next(federation.events()))
        if events[-1]["event"] == "ready":
            secrets = secrets_of(directory, events[-1]["run"])
    names = ("server", *federation.clients)
    addresses = {name: re.findall(r"metrics at http://([^/]+)/metrics", federation.log(name))[0] for name in names}
    return Watched(directory, federation, events, addresses, collector, secrets)


def secrets_of(directory: Path, run: str) -> list[bytes]:
    """What all parties of the run know and nobody else may: keys and secrets."""
    kept = StateFolder(directory / "clients" / "p1").run(RunId(run))
    assert kept is not None
    assert kept.secrets is not None
    return [kept.secrets.private_key, kept.secrets.alignment_secret, kept.secrets.tag_secret]


@pytest.fixture(scope="module")
def reader(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    targets = {
        "fenchel-server": [watched.addresses["server"]],
        "fenchel-client": [watched.addresses[name] for name in ("p1", "p2")],
    }
    with prometheus(tmp_path_factory.mktemp("prometheus"), targets, MONITORING / "alerts.yml") as running:
        running.wait_for_reads()
        yield running


def expressions() -> list[str]:
    """Every expression of the dashboard and of the alerts."""
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return [expression.replace("$__rate_interval", "1m") for expression in (*shown, *alerts)]


@needs_prometheus
def test_the_configuration_and_the_alerts_are_valid_and_fire_when_they_should() -> None:
    for words in (
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    ):
        checked = promtool(*words, cwd=MONITORING)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = (MONITORING / "alerts_test.yml").read_text()
    assert all(name in tested for name in re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text()))


@needs_prometheus
def test_the_metrics_are_named_as_prometheus_recommends(watched: Watched) -> None:
    for name, address in watched.addresses.items():
        checked = promtool("check", "metrics", given=scraped(address))
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", ""), name


@needs_prometheus
def test_prometheus_reads_a_server_and_its_clients(watched: Watched, reader: Prometheus) -> None:
    assert reader.values('up{job=~"fenchel-.*"}', "instance") == dict.fromkeys(watched.addresses.values(), 1.0)
    assert reader.values("fenchel_server_party_connected", "party") == {"p1": 1.0, "p2": 1.0}
    ended = reader.values("fenchel_server_runs_ended_total", "status")
    assert ended == dict.fromkeys(("diverged", "exhausted", "failed", "stopped"), 0.0) | {"completed": 1.0}
    rounds = [event for event in watched.events if event["event"] == "round"]
    (last,) = reader.values("fenchel_server_round", "party").values()
    assert last == rounds[-1]["round"]
    (target,) = reader.values("fenchel_server_duality_gap_target", "party").values()
    (gap,) = reader.values("fenchel_server_duality_gap", "party").values()
    assert 0.0 < gap <= target == 1e-3
    seconds = sum(reader.values("fenchel_server_round_seconds_total", "kind").values())
    assert seconds == pytest.approx(sum(event["seconds"] for event in rounds), rel=0.02)
    answered = reader.values('fenchel_client_tasks_total{outcome="answered"}', "instance")
    phases = [event for event in watched.events if event["event"] == "phase"]
    assert sum(answered.values()) == 2 * len(phases) - 2, "one party makes the key, the other takes it"
    assert all(spent > 0.0 for spent in reader.values("fenchel_client_seconds_total", "kind").values())
    assert set(reader.values("fenchel_client_connected", "instance").values()) == {1.0}


@needs_prometheus
@pytest.mark.parametrize("expression", expressions())
def test_every_expression_of_the_dashboard_and_the_alerts_is_of_metrics_that_are_there(
    reader: Prometheus, expression: str
) -> None:
    reader.query(expression)
    for name in re.findall(r"\b(?:fenchel|process)_[a-z_]+", expression):
        assert reader.query(name), f"nothing serves {name}"


def test_every_line_of_a_log_says_run_round_phase_and_party(watched: Watched) -> None:
    (run,) = {event["run"] for event in watched.events if "run" in event}
    for name in ("server", "p1", "p2"):
        lines = watched.log(name)
        assert {line["party"] for line in lines if line["party"] is not None} == {name}
        assert {line["run"] for line in lines} == {None, run}
        assert all(set(line) >= FIELDS for line in lines)
    begun = [line for line in watched.log("p1") if "slots" in line["message"]]
    assert [(line["run"], line["round"], line["phase"]) for line in begun] == [(run, 0, "layout")]


def test_no_metric_has_a_label_that_grows_with_runs_samples_or_features(watched: Watched) -> None:
    (run,) = {event["run"] for event in watched.events if "run" in event}
    for address in watched.addresses.values():
        text = scraped(address)
        assert run not in text
        assert set(re.findall(r'[{,](\w+)="', text)) <= LABELS


def texts(watched: Watched) -> dict[str, list[str]]:
    """All that each process writes, serves and sends about the run, but for the files for its own operator alone."""
    directory, clients = watched.directory, watched.directory / "clients"
    states = {"server": directory / "server", "p1": clients / "p1", "p2": clients / "p2"}
    found = {}
    for name, state in states.items():
        found[name] = [scraped(watched.addresses[name]), watched.federation.log(name)]
        found[name] += [path.read_text() for path in [state / LAST_ERRORS_FILE] if path.exists()]
        found[name] += [run_fenchel("doctor", "--state", state, "--format", form).stdout for form in ("table", "json")]
    found["server"].append(json.dumps(watched.events))
    found["server"] += [path.read_text() for path in (directory / "results").glob("*.json")]
    for words in (("runs", "show", "watched"), ("runs", "list"), ("runs", "watch", "watched"), ("audit", "watched")):
        for form in ("table", "json"):
            shown = run_fenchel(*words, "--state", states["server"], "--format", form)
            assert (shown.exit_code, shown.stdout != "") == (0, True), shown.stderr
            found["server"].append(shown.stdout)
    sent = [body.decode("latin-1") for body in watched.collector.bodies]
    return {name: [*written, *sent] for name, written in found.items()}


def test_no_secret_sample_id_feature_name_or_value_is_in_what_is_written_served_or_sent(watched: Watched) -> None:
    models = list(map(read_model, (watched.directory / "clients").glob("*/*.model")))
    assert len(models) == 2
    values = [np.asarray(shard.X).ravel() for shard in shards().values()]
    values += [model.weights for model in models]
    digits = [f"{value:.12e}".split(".")[1][:10] for value in np.concatenate(values)]
    forms = {form for secret in watched.secrets for form in (secret.hex(), base64.b64encode(secret).decode())}
    for name, written in texts(watched).items():
        for text in written:
            assert MARK not in text, name
            assert not any(form in text for form in forms), name
            assert not any(digit in text for digit in digits), name
    assert MARK in "".join(path.read_text() for path in (watched.directory / "clients").glob("*/*.features.csv"))


def test_a_port_that_is_taken_is_refused_before_anything_starts(watched: Watched, tmp_path: Path) -> None:
    kit = watched.directory / "kits" / "server"
    taken = watched.addresses["server"]
    ended = run_fenchel("server", "--kit", kit, "--state", tmp_path / "state", "--metrics", taken)
    assert ended.exit_code == 2
    assert f"--metrics: cannot listen at {taken}" in ended.stderr
    assert not (tmp_path / "state" / "state.db").exists()


def test_a_run_is_one_trace_of_its_rounds_their_phases_and_the_tasks_of_each_party(watched: Watched) -> None:
    phases = [event for event in watched.events if event["event"] == "phase"]
    rounds = {event["round"] for event in phases}
    watched.collector.wait_for(lambda spans: [span.name for span in spans].count("run") == 1)
    expected = (
        2 * len(phases) - 2 + 2 * len(phases) - 2
    )  # by the server and by the parties; two phases are of one party
    watched.collector.wait_for(lambda spans: [span.name for span in spans].count("task") == expected)
    spans = watched.collector.spans
    assert len({span.trace for span in spans}) == 1
    assert len({span.id for span in spans}) == len(spans)
    by_id = {span.id: span for span in spans}
    parents = {(span.service, span.name): set[tuple[str, str]]() for span in spans}
    for span in spans:
        assert span.began_ns <= span.ended_ns
        assert not span.failed
        assert set(span.attributes) == {f"fenchel.{name}" for name in ATTRIBUTES[span.service, span.name]}
        if span.parent:
            parent = by_id[span.parent]
            parents[span.service, span.name].add((parent.service, parent.name))
            assert parent.began_ns <= span.began_ns
            assert span.ended_ns <= parent.ended_ns
    server = "fenchel-server"
    assert parents == {
        (server, "run"): set(),
        (server, "round"): {(server, "run")},
        (server, "phase"): {(server, "round")},
        (server, "task"): {(server, "phase")},
        ("fenchel-client", "task"): {(server, "phase")},
    }
    assert {span.attributes["fenchel.round"] for span in named(spans, "round")} == rounds
    assert [span.attributes["fenchel.phase"] for span in named(spans, "phase")] == [event["phase"] for event in phases]
    assert {span.attributes["fenchel.party"] for span in named(spans, "task")} == {"p1", "p2"}
    assert [span.attributes["fenchel.status"] for span in named(spans, "run")] == ["completed"]


def named(spans: list[Seen], name: str) -> list[Seen]:
    return sorted((span for span in spans if span.name == name), key=lambda span: span.began_ns)
