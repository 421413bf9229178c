"""A kit in use takes a newer roster up from its folder, and nothing else."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fenchel_common.identity import Kit, LiveKit
from fenchel_deploy.provision import provision
from support.kits import federation_of, make_federation

ROSTER_FILES = ("roster.json", "roster.sig")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    make_federation(tmp_path / "kits", ("north", "south"))
    return tmp_path / "kits"


@pytest.fixture
def mine(out: Path, tmp_path: Path) -> Path:
    """The kit of north, on a machine of its own."""
    shutil.copytree(out / "north", tmp_path / "mine")
    return tmp_path / "mine"


def copy(source: Path, to: Path, *names: str) -> None:
    for name in names or [path.name for path in source.iterdir()]:
        shutil.copy(source / name, to / name)


def test_nothing_new_in_the_folder_leaves_the_kit_as_it_is(out: Path, mine: Path) -> None:
    kit = Kit.load(mine)
    live = LiveKit(kit)
    assert live.look() is kit
    copy(out / "north", mine)
    assert live.look() is kit


def test_a_newer_roster_is_taken_up(out: Path, mine: Path, caplog: pytest.LogCaptureFixture) -> None:
    live = LiveKit(Kit.load(mine))
    roster = provision(federation_of(("north", "south", "west")), out).roster
    copy(out / "north", mine, *ROSTER_FILES)
    with caplog.at_level(logging.INFO):
        assert live.look().roster == roster
    assert f"roster version 2 is in use, fingerprint {roster.fingerprint()}" in caplog.text


def test_half_of_a_roster_is_left_alone_until_it_is_whole(
    out: Path, mine: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = LiveKit(Kit.load(mine))
    roster = provision(federation_of(("north",)), out).roster
    (mine / "roster.json").write_bytes((out / "north" / "roster.json").read_bytes()[:100])
    assert live.look().roster.version == 1
    copy(out / "north", mine, "roster.json")
    assert live.look().roster.version == 1
    assert "is not taken up, the one before it stays in use: the roster does not carry" in caplog.text
    copy(out / "north", mine, "roster.sig")
    assert live.look().roster == roster


def a_lower_version(out: Path, mine: Path) -> None:
    shutil.rmtree(out)
    shutil.move(out.parent / "before", out)
    copy(out / "north", mine)


def the_same_version_of_other_content(out: Path, mine: Path) -> None:
    shutil.rmtree(out)
    shutil.move(out.parent / "before", out)
    provision(federation_of(("north", "south", "east")), out)
    copy(out / "north", mine)


def another_authority(out: Path, mine: Path) -> None:
    other = out.parent / "other"
    for parties in (("north", "south"), ("north", "west"), ("north", "east")):
        provision(federation_of(parties), other)
    copy(other / "north", mine)


def another_authority_s_roster(out: Path, mine: Path) -> None:
    other = out.parent / "other"
    for parties in (("north", "south"), ("north", "west"), ("north", "east")):
        provision(federation_of(parties), other)
    copy(other / "north", mine, *ROSTER_FILES)


def another_party_s_kit(out: Path, mine: Path) -> None:
    provision(federation_of(("north", "south", "west", "east")), out)
    copy(out / "south", mine)


def no_roster(out: Path, mine: Path) -> None:
    (mine / "roster.json").unlink()


@pytest.mark.parametrize(
    "change",
    [
        a_lower_version,
        the_same_version_of_other_content,
        another_authority,
        another_authority_s_roster,
        another_party_s_kit,
        no_roster,
    ],
    ids=lambda change: change.__name__,
)
def test_nothing_else_is_taken_up(
    out: Path, mine: Path, change: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(out, out.parent / "before")
    provision(federation_of(("north", "south", "west")), out)
    copy(out / "north", mine)
    live = LiveKit(Kit.load(mine))
    used = live.look()
    change(out, mine)
    assert live.look() is used
    assert "not taken up" in caplog.text


def test_a_new_key_is_taken_up_with_the_roster_that_names_it(out: Path, mine: Path) -> None:
    live = LiveKit(Kit.load(mine))
    used = live.look()
    provision(federation_of(), out, replace=["north"])
    copy(out / "north", mine, "key.pem", "cert.pem")
    assert live.look() is used
    copy(out / "north", mine)
    assert live.look() == Kit.load(mine)
    live.look().verify()


def test_a_roster_that_names_another_key_is_taken_up_and_told(
    out: Path, mine: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = LiveKit(Kit.load(mine))
    provision(federation_of(), out, replace=["north"])
    copy(out / "north", mine, *ROSTER_FILES)
    assert live.look().roster.version == 2
    assert "the certificate of 'north' was replaced" in caplog.text


def test_the_end_of_a_roster_is_warned_of(mine: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of tests are valid for 30 days."""
    LiveKit(Kit.load(mine))
    assert "roster version 1 expires on" in caplog.text
