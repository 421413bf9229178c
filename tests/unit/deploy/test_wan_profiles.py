"""What a wide-area profile asks of the relay, and what it predicts."""

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_deploy.wan import Wan


@pytest.mark.parametrize(("profile", "delay_ms"), [("us-singapore", "128.75"), ("geo", "400")])
def test_the_relay_delays_each_way_by_half_of_the_round_trip(profile: str, delay_ms: str) -> None:
    command = Wan(profile).relay_command(listen="localhost:9092", target="server:9092")
    assert command[command.index("--delay-ms") + 1] == delay_ms
    assert "--mbit" not in command


def test_a_network_without_distance_and_limit_needs_no_relay() -> None:
    assert not Wan().relayed
    assert Wan(mbit=10).relayed
    assert Wan(mbit=10).relay_command(listen="localhost:1", target="server:9092")[-2:] == ["--mbit", "10"]


def test_a_round_is_predicted_from_its_round_trips_and_its_work() -> None:
    spent = {"total": 1.1, "decrypt": 0.1, "compute": 0.05, "wire": 0.9, "wait": 0.03, "clients": 0.02}
    told = Wan("us-singapore").report({"round_seconds": spent, "rtc_per_round": 3}, measured_rtt_s=0.26)
    assert told["work_s"] == pytest.approx(0.15)
    assert told["predicted_round_s"] == pytest.approx(3 * 0.2575 + 0.15)
    assert (told["round_s"], told["measured_rtt_s"]) == (1.1, 0.26)


def test_a_run_without_a_round_has_nothing_to_predict() -> None:
    told = Wan("geo").report({"round_seconds": {}, "rtc_per_round": None}, measured_rtt_s=0.8)
    assert (told["round_s"], told["predicted_round_s"]) == (None, None)


@pytest.mark.parametrize(("profile", "mbit"), [("mars", None), ("geo", 0.0), ("none", -1.0)])
def test_what_is_no_network_is_refused(profile: str, mbit: float | None) -> None:
    with pytest.raises(InvalidInput, match=r"--wan|--bandwidth"):
        Wan(profile, mbit)
