"""What a run says that it cost, beside the clock on the wall, the kernel's counts and the lines of a relay."""

import json
import resource
import socket
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fenchel_client.crypto.timed import Stopwatch, in_steps
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.processmemory import peak_memory_bytes
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import Spent
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.wan import NEAR, Wan
from fenchel_server.rounds.ledger import Kind, RoundLedger
from fenchel_server.rounds.transport import Exchange, Gathered
from fenchel_server.transport.portbytes import PortCounter
from support.tables import named_shards, small_dataset

pytestmark = pytest.mark.alone

SHARDS = named_shards(small_dataset(), grid=(2, 2))
ROUND_TRIP_S = 0.05


def config(**changes: Any) -> RunConfig:
    return RunConfig.from_mapping(
        {
            "name": "test",
            "settings": {"loss": "hinge", "lambda": 0.05, "local": "paper"},
            "key": {"bits": 2048},
            "stop": {"gap": 1e-9, "rounds": 20},
            **changes,
        }
    )


@dataclass(frozen=True)
class Measured:
    """A run as it was seen from outside: its wall-clock time, its processes' CPU time, its rounds and its outcome."""

    wall_clock_s: float
    cpu_s: float
    costs: list[Mapping[str, Any]]
    outcome: Mapping[str, Any]


def run(directory: Path, settings: RunConfig, *, wan: Wan = NEAR) -> Measured:
    federation = LocalFederation(
        directory, SHARDS, settings, wan=wan, server_options=["--results", str(directory / "results")]
    )
    cpu_before_s = children_cpu_s()
    try:
        federation.start_server()
        began = time.monotonic()
        if wan.relayed:
            federation.start_relay()
        for name in SHARDS:
            federation.start_client(name)
        events = []
        for event in federation.events():
            events.append(event)
            if event["event"] == "ended":
                wall_clock_s = time.monotonic() - began
        federation.wait()
    finally:
        federation.__exit__(None, None, None)
    (outcome,) = [event["outcome"] for event in events if event["event"] == "ended"]
    costs = [event["costs"] for event in events if event["event"] == "round"]
    return Measured(wall_clock_s, children_cpu_s() - cpu_before_s, costs, outcome)


def children_cpu_s() -> float:
    """CPU time of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def parts_of(seconds: Mapping[str, float]) -> Mapping[str, float]:
    return {kind: spent for kind, spent in seconds.items() if kind != "total"}


def test_the_parts_add_up_to_the_wall_clock_for_the_run_each_round_and_each_party(tmp_path: Path) -> None:
    measured = run(tmp_path, config())
    outcome, costs = measured.outcome, measured.costs
    total_s = outcome["seconds"]["total"]
    assert total_s == pytest.approx(measured.wall_clock_s, rel=0.02, abs=0.5)
    assert len(costs) == outcome["rounds"] + 1, "the closing round has costs too"
    for seconds in (outcome["seconds"], *(spent["seconds"] for spent in costs)):
        assert sum(parts_of(seconds).values()) == pytest.approx(seconds["total"])
    assert_little_is_unexplained(outcome, costs)
    for name in SHARDS:
        detail = outcome["clients_detail"][name]
        assert sum(spent for kind, spent in detail.items() if kind.endswith("_s")) == pytest.approx(total_s, rel=0.001)
        assert min(detail[f"{kind}_s"] for kind in ("decrypt", "compute", "wire")) > 0
        assert detail["rss_mib"] > 40
    check_bytes(outcome, costs)
    check_cpu(measured)
    check_accounting(measured)
    (result,) = (json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json"))
    assert result["config"]["stop"]["rounds"] == 20
    assert [committed["seconds"]["total"] for committed in result["history"][1:]] == [
        spent["seconds"]["total"] for spent in costs
    ]


def assert_little_is_unexplained(outcome: Mapping[str, Any], costs: list[Mapping[str, Any]]) -> None:
    """At most 2 % of the run, and of its rounds, is of no other kind."""
    rounds = [spent["seconds"] for spent in costs]
    assert outcome["seconds"]["other"] <= 0.02 * outcome["seconds"]["total"]
    assert sum(seconds["other"] for seconds in rounds) <= 0.02 * sum(seconds["total"] for seconds in rounds)


def check_bytes(outcome: Mapping[str, Any], costs: list[Mapping[str, Any]]) -> None:
    """The bytes of all parties add up; some of them are ciphertext; at the port are all of them and a little more."""
    for way in ("up", "down"):
        for spent in costs:
            assert sum(party[f"bytes_{way}"] for party in spent["clients"].values()) == spent["bytes"][way]
            assert 0 < spent["bytes"][f"ciphertext_{way}"] < spent["bytes"][way]
        assert sum(party[f"bytes_{way}"] for party in outcome["clients_detail"].values()) == outcome["bytes"][way]
        assert outcome["bytes"][way] < outcome["bytes"][f"port_{way}"] < 1.2 * outcome["bytes"][way]


def check_cpu(measured: Measured) -> None:
    """What the processes report is the CPU time that the system charged for them, less what they took to start."""
    reported = measured.outcome["cpu_seconds"]
    parties_s = sum(detail["cpu_seconds"] for detail in measured.outcome["clients_detail"].values())
    assert reported["parties"] == pytest.approx(parties_s)
    assert min(reported.values()) > 0
    assert reported["server"] + reported["parties"] < measured.cpu_s
    worked_s = sum(
        detail[f"{kind}_s"]
        for detail in measured.outcome["clients_detail"].values()
        for kind in ("encrypt", "decrypt", "serialise", "compute")
    )
    assert parties_s < 1.5 * worked_s + 1.0, "in its tasks a party uses one core; it makes nonces beside them"


def check_accounting(measured: Measured) -> None:
    """What the accounting of a round takes is under 1 % of the CPU time of the round."""
    rounds = [sum(spent["cpu_seconds"].values()) for spent in measured.costs]
    phases = int(measured.outcome["rtc_per_round"])
    spent_s = min(accounting_s(phases=phases, parties=len(SHARDS)) for _ in range(3))
    assert 0 < spent_s < 0.01 * statistics.median(rounds)


def accounting_s(*, phases: int, parties: int, repeats: int = 20) -> float:
    """CPU seconds of what server and parties do in a round for the sake of its costs alone."""
    names = [ClientId(f"p{number}") for number in range(parties)]
    spent = Spent(encrypt_s=0.1, decrypt_s=0.2, serialise_s=0.1, compute_s=0.1, peak_memory_bytes=1, cpu_s=0.1)
    gathered = Gathered(
        results=dict.fromkeys(names, b""),
        absences={},
        bytes_up=parties,
        bytes_down=parties,
        seconds=1.0,
        spent=dict.fromkeys(names, spent),
        exchanges=dict.fromkeys(names, Exchange(1.0, 1, 1)),
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = PortCounter(listening.getsockname()[1])
        began_s = time.process_time()
        for _ in range(repeats):
            ledger = RoundLedger(time.monotonic, port=port.look)
            for phase in range(phases):
                for kind in (Kind.COMPUTE, Kind.COMPUTE, Kind.COMPUTE, Kind.STORE):
                    with ledger.spending(kind):
                        pass
                ledger.add_phase(str(phase), gathered, seconds=1.0)
            ledger.record(RoundId(1))
            for _ in range(phases * parties):
                Stopwatch(encrypt_s=1.0).spent_since(Stopwatch(), total_s=2.0)
                in_steps(time.process_time() + peak_memory_bytes())
        return (time.process_time() - began_s) / repeats


def test_a_delay_of_the_network_shows_up_as_wire_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fenchel_deploy.wan.PROFILES_S", {"none": 0.0, "slow": ROUND_TRIP_S})
    settings = config(cipher="masks")
    near, far = run(tmp_path / "near", settings), run(tmp_path / "far", settings, wan=Wan("slow"))
    trips = near.outcome["rtc_per_round"]
    assert far.outcome["rtc_per_round"] == trips
    usual, delayed = (medians(measured.costs) for measured in (near, far))
    added_s = trips * ROUND_TRIP_S
    assert delayed["wire"] - usual["wire"] == pytest.approx(added_s, rel=0.25)
    for kind in parts_of(usual).keys() - {"wire"}:
        assert abs(delayed[kind] - usual[kind]) < 0.1 * added_s, kind
    # A party tells its times in steps of 10 ms, up or down at random, so that one round's wire can be too short.
    assert statistics.mean(spent["seconds"]["wire"] for spent in far.costs) >= 0.95 * added_s
    for spent in far.costs:
        assert sum(parts_of(spent["seconds"]).values()) == pytest.approx(spent["seconds"]["total"])
    assert_little_is_unexplained(far.outcome, far.costs)


def medians(costs: list[Mapping[str, Any]]) -> Mapping[str, float]:
    """By kind, the median over the rounds."""
    return {kind: statistics.median(spent["seconds"][kind] for spent in costs) for kind in costs[0]["seconds"]}
