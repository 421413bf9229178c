"""A new roster is taken up by running processes: who is refused from then on, who is told what, and who goes on."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fenchel_client.task import Task
from fenchel_client.transport.health import ask_health
from fenchel_common.errors import CertificateReplaced, FenchelError, NotOnRoster
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.folders import kit_folder, shard_file
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.provision import provision
from fenchel_server.transport import TransportLimits
from support.connections import JOIN_S, Attending, RawClient, Server, echo, phase
from support.kits import federation_of, hand_over, make_federation
from support.tables import named_shards, small_dataset

NORTH, SOUTH = ClientId("north"), ClientId("south")
BOTH = frozenset({NORTH, SOUTH})
ROSTER_FILES = ("roster.json", "roster.sig")
LIMITS = TransportLimits(heartbeat_s=0.5, silence_s=20.0)


class Machines:
    """Every member of a federation with its kit in a folder of its own, as on a machine of its own."""

    def __init__(self, directory: Path) -> None:
        self._out = directory / "out"
        self._directory = directory
        make_federation(self._out)
        for name in ("server", "north", "south"):
            self.give(name)

    def provision(self, parties: tuple[str, ...] = ("north", "south"), *, replace: tuple[str, ...] = ()) -> None:
        """The operator changes the federation; nobody has anything of it yet."""
        provision(federation_of(parties), self._out, replace=replace)

    def give(self, name: str, *, to: str | None = None, files: tuple[str, ...] = ()) -> Path:
        """Hands the newest kit, or some files of it, to its user."""
        return hand_over(self._out / name, self.folder(to or name), files=files)

    def folder(self, name: str) -> Path:
        return self._directory / name

    def kit(self, name: str) -> Kit:
        return Kit.load(self.folder(name))


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.fixture
def server(machines: Machines) -> Iterator[Server]:
    with Server(machines.kit("server"), limits=LIMITS) as running:
        yield running


def refusal_of(kit: Kit, server: Server) -> FenchelError:
    with RawClient(kit, server.address) as client:
        client.hello()
        return client.refusal()[1]


def test_an_open_connection_with_a_replaced_certificate_is_ended_and_told_why(
    machines: Machines, server: Server
) -> None:
    with (
        Attending(machines.folder("north"), echo, server.address),
        Attending(machines.folder("south"), echo, server.address) as south,
    ):
        assert server.transport.wait_for(BOTH, timeout_s=JOIN_S) == BOTH
        machines.provision(replace=("south",))
        machines.give("server", files=ROSTER_FILES)
        end = south.end()
        assert isinstance(end, CertificateReplaced)
        assert "the certificate of 'south' was replaced: roster version 2 names the key" in str(end)
        assert SOUTH not in server.transport.present()
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=JOIN_S) == {NORTH}
        assert server.transport.gather(phase("p"), {NORTH: b"on"}, deadline_s=JOIN_S).results == {NORTH: b"on"}


def test_a_replaced_certificate_is_refused_from_the_moment_the_server_has_the_roster(
    machines: Machines, server: Server
) -> None:
    old = machines.kit("south")
    assert not ask_health(old, address=server.address, timeout_s=JOIN_S).serving
    machines.provision(replace=("south",))
    machines.give("server", files=ROSTER_FILES)
    assert isinstance(refusal_of(old, server), CertificateReplaced)
    with pytest.raises(CertificateReplaced):
        ask_health(old, address=server.address, timeout_s=JOIN_S)
    machines.give("south")
    with Attending(machines.folder("south"), echo, server.address):
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S) == {SOUTH}


def test_an_open_connection_of_a_party_that_was_removed_is_ended_and_told_why(
    machines: Machines, server: Server
) -> None:
    with Attending(machines.folder("south"), echo, server.address) as south:
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S)
        machines.provision(("north",))
        machines.give("server", files=ROSTER_FILES)
        assert isinstance(south.end(), NotOnRoster)
    assert isinstance(refusal_of(machines.kit("south"), server), NotOnRoster)


def test_a_result_of_a_party_that_was_removed_is_not_taken(machines: Machines) -> None:
    """Though its connection reads nothing, and no heartbeat to it is due for long."""
    with (
        Server(machines.kit("server"), limits=TransportLimits(heartbeat_s=60.0, silence_s=200.0)) as server,
        Attending(machines.folder("south"), lambda task: taken_away(machines, task), server.address) as south,
    ):
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S)
        outcome = server.transport.gather(phase("p"), {SOUTH: b"late"}, deadline_s=2.0)
        assert isinstance(south.end(), NotOnRoster)
    assert outcome.results == {}


def taken_away(machines: Machines, task: Task) -> bytes:
    machines.provision(("north",))
    machines.give("server", files=ROSTER_FILES)
    return task.body


def test_a_party_takes_up_its_new_key_without_a_restart(machines: Machines, server: Server) -> None:
    with Attending(machines.folder("south"), echo, server.address):
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S)
        incarnation = server.transport.incarnation(SOUTH)
        machines.provision(replace=("south",))
        machines.give("south")
        machines.give("server")
        outcome = server.transport.gather(phase("p"), {SOUTH: b"on"}, deadline_s=JOIN_S)
        assert outcome.results == {SOUTH: b"on"}
        assert server.transport.incarnation(SOUTH) == incarnation


def test_a_party_whose_kit_is_newer_than_the_server_s_tries_again_until_the_server_has_it(
    machines: Machines, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    machines.provision(replace=("south",))
    machines.give("south")
    with Attending(machines.folder("south"), echo, server.address):
        wait_for_log(caplog, "the server's roster is version 1, this kit's is version 2")
        assert server.transport.present() == frozenset()
        machines.give("server", files=ROSTER_FILES)
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S) == {SOUTH}


def test_a_new_key_of_the_server_is_taken_up_on_both_sides_without_a_restart(
    machines: Machines, server: Server
) -> None:
    with Attending(machines.folder("south"), echo, server.address):
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S)
        incarnation = server.transport.incarnation(SOUTH)
        machines.provision(replace=("server",))
        machines.give("server")
        machines.give("south")
        with RawClient(machines.kit("south"), server.address) as by_the_new_key:
            by_the_new_key.hello(incarnation=incarnation or "")
            by_the_new_key.receive("welcome")
        assert server.transport.gather(phase("p"), {SOUTH: b"on"}, deadline_s=JOIN_S).results == {SOUTH: b"on"}


def test_a_server_with_a_replaced_certificate_is_not_talked_to(
    machines: Machines, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    machines.provision(replace=("server",))
    machines.give("south")
    with Attending(machines.folder("south"), echo, server.address):
        wait_for_log(caplog, "has another key than the server of this kit's roster (version 2)")
        assert server.transport.present() == frozenset()
        machines.give("server")
        assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S) == {SOUTH}


def test_an_old_kit_is_told_that_it_is_old_on_either_side(
    machines: Machines, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    machines.provision(("north", "south", "west"))
    with Attending(machines.folder("north"), echo, server.address):
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=JOIN_S)
        machines.give("north", files=ROSTER_FILES)
        wait_for_log(caplog, "this server's kit is old: its roster is version 1, that of north is version 2")
        wait_for_log(caplog, "the server's kit is old: its roster is version 1, this kit's is version 2")
        machines.give("server", files=ROSTER_FILES)
        with Attending(machines.folder("south"), echo, server.address):
            assert server.transport.wait_for(frozenset({SOUTH}), timeout_s=JOIN_S)
            wait_for_log(caplog, "this kit is old: its roster is version 1, the server's is version 2; get roster.json")
            wait_for_log(caplog, "the kit of south is old: its roster is version 1, this server's is version 2")


def wait_for_log(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Returns as soon as the text is in the log."""
    heard = logging.getLogger()
    arrived = _Arrived(text)
    heard.addHandler(arrived)
    try:
        assert text in caplog.text or arrived.event.wait(JOIN_S), caplog.text
    finally:
        heard.removeHandler(arrived)


class _Arrived(logging.Handler):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.event = threading.Event()
        self._text = text

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.event.set()


def test_processes_take_a_new_roster_up_and_train_while_a_replaced_kit_is_turned_away(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(40, 4), grid=(2, 1))
    first, second = shards
    config = RunConfig.from_mapping(
        {
            "name": "test",
            "settings": {"lambda": 0.1},
            "key": {"bits": 2048},
            "stop": {"gap": 0.05, "rounds": 30},
        }
    )
    federation = LocalFederation(tmp_path, shards, config)
    old = hand_over(kit_folder(tmp_path, second), tmp_path / "old")
    try:
        federation.start_server()
        federation.start_client(first)
        events = federation.events()
        assert next(event for event in events if event["event"] == "waiting")["for"]
        described = Kit.load(old).roster
        provision(
            federation_of((first, second), federation="local", validity_days=365), tmp_path / "kits", replace=[second]
        )
        arguments = ["--kit", str(old), "--data", str(shard_file(tmp_path, second)), "--state", str(tmp_path / "state")]
        refused = subprocess.run(
            [sys.executable, "-m", "fenchel_deploy", "client", *arguments, "--server", f"localhost:{federation.port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == ExitCode.IDENTITY
        assert f"error: the certificate of '{second}' was replaced: roster version 2 names the key" in refused.stderr
        federation.start_client(second)
        (ended,) = [event for event in events if event["event"] == "ended"]
        assert ended["status"] == "completed", federation.log("server")
        assert set(federation.wait().values()) == {0}
        assert f"roster version {described.version + 1} is in use" in federation.log(first)
    finally:
        federation.__exit__(None, None, None)
