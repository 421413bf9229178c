"""Introductions: which lists of them a party believes."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fenchel_client.crypto.introductions import fresh_key, introduce, point_of, verified_introductions
from fenchel_common.errors import (
    CertificateNotValidNow,
    CertificateReplaced,
    FenchelError,
    IntroductionNotSigned,
    InvalidInput,
    MalformedCertificate,
    NotOnRoster,
    WrongAuthority,
    WrongRole,
)
from fenchel_common.identity import Kit, Role
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import Introduction
from fenchel_common.wire.ceremony import introductions_from_bytes, introductions_to_bytes
from fenchel_deploy.authority import make_key
from support.kits import authority_of, make_federation

TERMS = bytes(range(32))
RUN = RunId("run-1")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kits")


@pytest.fixture(scope="module")
def kits(directory: Path) -> dict[str, Kit]:
    made = make_federation(directory, ("north", "south", "west"))
    return {name: Kit.load(path) for name, path in made.items()}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kit]:
    """A federation of the same names under another authority."""
    made = make_federation(tmp_path_factory.mktemp("strangers"), ("north", "south", "west"))
    return {name: Kit.load(path) for name, path in made.items()}


def introduction_of(kit: Kit, *, run: RunId = RUN, terms: bytes = TERMS) -> Introduction:
    return introduce(kit, fresh_key().public_key(), run=run, terms=terms)


def verified(
    kits: dict[str, Kit], relayed: list[Introduction], *, now: datetime | None = None
) -> dict[ClientId, Introduction]:
    """As the key holder reads what the server relays."""
    north = kits["north"]
    found = verified_introductions(
        relayed, roster=north.roster, authority=north.authority, run=RUN, terms=TERMS, now=now
    )
    return dict(found)


def test_relayed_introductions_arrive_by_party_in_the_order_of_the_roster(kits: dict[str, Kit]) -> None:
    introduced = {name: introduction_of(kits[name]) for name in ("west", "north", "south")}
    relayed = introductions_from_bytes(introductions_to_bytes(list(introduced.values())))
    found = verified(kits, list(relayed))
    assert found == introduced
    assert list(found) == ["north", "south", "west"]


def test_a_relayed_introduction_that_the_own_kit_does_not_confirm_is_refused(
    kits: dict[str, Kit], strangers: dict[str, Kit], directory: Path
) -> None:
    def offer(*offered: Kit, now: datetime | None = None) -> None:
        verified(kits, [introduction_of(kit) for kit in offered], now=now)

    everyone = [kits[name] for name in ("north", "south", "west")]
    outsider = authority_of(directory / "ca").issue(
        kits["west"].certificate.public_key(),
        role=Role.PARTY,
        name="east",
        validity=timedelta(days=1),
        skew=timedelta(0),
    )
    second_of_west = authority_of(directory / "ca").issue(
        make_key().public_key(), role=Role.PARTY, name="west", validity=timedelta(days=1), skew=timedelta(0)
    )
    cases: list[tuple[type[FenchelError], Callable[[], None]]] = [
        (WrongAuthority, lambda: offer(*everyone[:2], strangers["west"])),
        (WrongRole, lambda: offer(*everyone, kits["server"])),
        (NotOnRoster, lambda: offer(*everyone, replace(kits["west"], certificate=outsider))),
        (InvalidInput, lambda: offer(*everyone, kits["south"])),
        (InvalidInput, lambda: offer(*everyone[:2])),
        (CertificateReplaced, lambda: offer(*everyone[:2], replace(kits["west"], certificate=second_of_west))),
        (CertificateNotValidNow, lambda: offer(*everyone, now=datetime.now(UTC) + timedelta(days=31))),
    ]
    for error, attempt in cases:
        with pytest.raises(error):
            attempt()


def test_an_introduction_is_signed_for_one_run_one_roster_one_configuration_and_one_key(kits: dict[str, Kit]) -> None:
    south = kits["south"]
    other_roster = replace(south.roster, version=south.roster.version + 1)
    altered = {
        "run": introduction_of(south, run=RunId("run-0")),
        "configuration": introduction_of(south, terms=bytes(32)),
        "roster": introduction_of(replace(south, roster=other_roster)),
        "ephemeral key": replace(introduction_of(south), ephemeral_key=point_of(fresh_key().public_key())),
        "certificate": replace(introduction_of(south), certificate=kits["west"].certificate),
        "signer": introduction_of(replace(south, key_pem=kits["west"].key_pem)),
        "signature": replace(introduction_of(south), signature=b"x"),
    }
    for what, one in altered.items():
        others = [introduction_of(kits[name]) for name in ("north", "west") if what != "certificate" or name != "west"]
        with pytest.raises(IntroductionNotSigned, match="every party needs the roster of the last"):
            verified(kits, [*others, one])


def test_an_ephemeral_key_that_is_no_point_is_refused(kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fenchel_client.crypto.introductions.point_of", lambda _key: b"\x04" + bytes(64))
    with pytest.raises(InvalidInput, match="no point of P-256"):
        verified(kits, [introduction_of(kits["south"])])


@pytest.mark.parametrize("encoded", [b"\xff", b"\x0a\x01x"], ids=["noise", "not a certificate"])
def test_a_malformed_list_of_introductions_is_refused(encoded: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        introductions_from_bytes(encoded)
