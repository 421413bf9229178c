"""Metrics and logs of real processes in a whole run, read by a real Prometheus; and what must not be in them."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.logs import LAST_ERRORS_FILE
from support.commands import run_fenchel
from support.prometheus import Prometheus, prometheus, promtool, scraped
from support.tables import named_shards, small_dataset

MONITORING = Path(__file__).resolve().parents[2] / "deploy/monitoring"
MARK = "markedword"
FIELDS = {"time", "level", "logger", "message", "run", "round", "phase", "party"}
LABELS = {"party", "kind", "way", "phase", "status", "outcome", "le", "version"}
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

    def log(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.federation.log(name).splitlines()]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Two parties with samples in common, whose ids and feature names are marked words."""
    directory = tmp_path_factory.mktemp("watched")
    shards = {
        name: replace(
            shard,
            ids=tuple(f"{MARK}-id-{sample}" for sample in shard.ids),
            features=tuple(f"{MARK}-{feature}" for feature in shard.features),
        )
        for name, shard in named_shards(small_dataset(60, 4), grid=(1, 2)).items()
    }
    config = RunConfig.from_mapping(
        {"name": "watched", "settings": {"lambda": 0.5}, "key": {"bits": 2048}, "stop": {"gap": 1e-3, "rounds": 40}}
    )
    options = ["--metrics", "0", "--log-format", "json"]
    federation = LocalFederation(directory, shards, config, server_options=[*options, "--stay"], client_options=options)
    with federation:
        events = []
        for event in federation.events():
            events.append(event)
            if event["event"] == "ended":
                break
        logs = {name: federation.log(name) for name in ("server", *shards)}
        addresses = {name: re.findall(r"metrics at http://([^/]+)/metrics", log)[0] for name, log in logs.items()}
        yield Watched(directory, federation, events, addresses)


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


def test_no_sample_id_or_feature_name_is_in_logs_metrics_events_or_what_a_doctor_gathers(watched: Watched) -> None:
    directory = watched.directory
    texts = [scraped(address) for address in watched.addresses.values()]
    texts += [watched.federation.log(name) for name in watched.addresses]
    texts += [json.dumps(watched.events)]
    states = [directory / "server", *(directory / "clients" / name for name in ("p1", "p2"))]
    texts += [path.read_text() for state in states if (path := state / LAST_ERRORS_FILE).exists()]
    for form in ("table", "json"):
        doctor = run_fenchel("doctor", *(word for state in states for word in ("--state", state)), "--format", form)
        shown = run_fenchel("runs", "show", "watched", "--state", states[0], "--format", form)
        texts += [doctor.stdout, shown.stdout]
        assert (doctor.exit_code, shown.exit_code) == (0, 0)
    assert [text for text in texts if MARK in text] == []
    assert MARK in "".join(path.read_text() for path in (directory / "clients").glob("*/*.features.csv"))


def test_a_port_that_is_taken_is_refused_before_anything_starts(watched: Watched, tmp_path: Path) -> None:
    kit = watched.directory / "kits" / "server"
    taken = watched.addresses["server"]
    ended = run_fenchel("server", "--kit", kit, "--state", tmp_path / "state", "--metrics", taken)
    assert ended.exit_code == 2
    assert f"--metrics: cannot listen at {taken}" in ended.stderr
    assert not (tmp_path / "state" / "state.db").exists()
