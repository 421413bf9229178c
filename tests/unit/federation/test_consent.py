"""What a party takes part in without its operator's word, and what each word of `--accept` admits."""

import re
from pathlib import Path
from typing import Any

import pytest

from fenchel_client.concessions import MEANINGS, Concession, explained
from fenchel_client.consent import Consent, concessions_of
from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.consent import consenting_options
from support.kits import make_federation
from support.tables import named_shards, small_dataset

SHARD = named_shards(small_dataset(8, 2), grid=(1, 1))["p1"]
PLAIN = {"privacy": "plain", "benchmark": True}
PAPER = {"privacy": "paper", "acknowledge_row_leak": True}
ASKING: list[tuple[dict[str, Any], tuple[Concession, ...]]] = [
    ({}, ()),
    (PAPER, (Concession.PAPER,)),
    (PLAIN, (Concession.PLAIN,)),
    ({"key": {"bits": 2048}}, (Concession.KEY_2048,)),
    ({"key": {"kind": "subgroup"}}, (Concession.SUBGROUP,)),
    ({"alignment": "hmac"}, (Concession.HMAC,)),
    ({"seed": 0}, (Concession.SEED,)),
    ({"features": {"scale": "minmax"}, "acknowledge_extremes": True}, (Concession.EXTREMES,)),
    (
        PAPER | {"key": {"bits": 2048, "kind": "subgroup"}, "alignment": "hmac", "seed": 7},
        (Concession.PAPER, Concession.KEY_2048, Concession.SUBGROUP, Concession.HMAC, Concession.SEED),
    ),
]
EACH = pytest.mark.parametrize(("terms", "asked"), ASKING, ids=["defaults", *Concession, "all but plain"])


def config(**terms: Any) -> RunConfig:
    return RunConfig.from_mapping({"name": "test", "settings": {"lambda": 0.1}} | terms)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return Kit.load(make_federation(tmp_path_factory.mktemp("kits"))["south"])


def introduced(kit: Kit, state: Path, accepts: frozenset[Concession], terms: dict[str, Any]) -> bytes:
    party = Party(kit, SHARD, state=state, consent=Consent(accepts=accepts))
    return party.handle(Task(RunId("run-1"), RoundId(0), INTRODUCE, terms_to_bytes(config(**terms))))


@EACH
def test_a_run_asks_for_exactly_the_words_of_what_it_weakens(
    terms: dict[str, Any], asked: tuple[Concession, ...]
) -> None:
    assert concessions_of(config(**terms)) == asked


@EACH
def test_a_party_takes_part_where_its_operator_accepted_all_that_is_asked(
    kit: Kit, tmp_path: Path, caplog: pytest.LogCaptureFixture, terms: dict[str, Any], asked: tuple[Concession, ...]
) -> None:
    assert introduced(kit, tmp_path, frozenset(asked), terms)
    leaks = "the server can work out rows of the parties' data" in caplog.text
    assert leaks == (Concession.PAPER in asked)


@pytest.mark.parametrize(("terms", "asked"), ASKING[1:], ids=[*Concession, "all but plain"])
def test_a_party_refuses_at_its_introduction_what_its_operator_did_not_accept(
    kit: Kit, tmp_path: Path, terms: dict[str, Any], asked: tuple[Concession, ...]
) -> None:
    for missing in asked:
        rest = frozenset(asked) - {missing}
        with pytest.raises(Refusal, match=f"if you agree to that, start the client with --accept {missing}") as caught:
            introduced(kit, tmp_path, rest, terms)
        assert f"{missing} ({MEANINGS[missing]})" in str(caught.value)
        assert caught.value.public_reason == f"its operator does not accept: {missing}"


def test_a_refusal_names_every_word_that_is_missing(kit: Kit, tmp_path: Path) -> None:
    terms = {"key": {"bits": 2048, "kind": "subgroup"}, "alignment": "hmac"}
    with pytest.raises(
        Refusal, match="if you agree to that, start the client with --accept 2048-bits --accept hmac"
    ) as caught:
        introduced(kit, tmp_path, frozenset({Concession.SUBGROUP}), terms)
    assert caught.value.public_reason == "its operator does not accept: 2048-bits, hmac"


def test_whoever_accepts_plain_accepts_paper_and_not_the_reverse(kit: Kit, tmp_path: Path) -> None:
    assert introduced(kit, tmp_path, frozenset({Concession.PLAIN}), PAPER)
    with pytest.raises(Refusal, match="--accept plain"):
        introduced(kit, tmp_path, frozenset({Concession.PAPER}), PLAIN)


@pytest.mark.parametrize(("cipher", "rejected"), [("masks", "paillier"), ("paillier", "masks")])
def test_a_party_refuses_a_cipher_that_its_operator_rejects(
    kit: Kit, tmp_path: Path, cipher: str, rejected: str
) -> None:
    consent = Consent(ciphers=frozenset({cipher}))
    consent.check(config(cipher=cipher))
    party = Party(kit, SHARD, state=tmp_path, consent=consent)
    with pytest.raises(Refusal) as caught:
        party.handle(Task(RunId("run-1"), RoundId(0), INTRODUCE, terms_to_bytes(config(cipher=rejected))))
    assert str(caught.value) == (
        f"the run hides vectors by {rejected}, and the operator of this party accepts only {cipher}; if you agree to "
        f"it, start the client with --accept-cipher {rejected}"
    )
    assert caught.value.public_reason == f"its operator does not accept the cipher {rejected}"


def test_without_a_word_about_ciphers_a_party_takes_part_with_either(kit: Kit, tmp_path: Path) -> None:
    for cipher in ("paillier", "masks"):
        assert introduced(kit, tmp_path / cipher, frozenset(), {"cipher": cipher})


def test_a_run_without_a_key_asks_for_no_word_about_keys() -> None:
    assert concessions_of(config(**PLAIN, key={"bits": 2048, "kind": "subgroup"})) == (Concession.PLAIN,)
    assert concessions_of(config(cipher="masks", key={"bits": 2048, "kind": "subgroup"})) == ()


def test_where_paper_shows_the_server_no_more_than_sealed_nobody_needs_to_accept_it() -> None:
    assert concessions_of(config(algorithm="fedavg", privacy="paper")) == ()


def test_every_word_is_explained() -> None:
    words = re.findall(r"(\S+) \(([^)]+)\)", explained())
    assert [word for word, _ in words] == [str(concession) for concession in Concession]
    assert all(meaning for _, meaning in words)


@EACH
def test_who_starts_a_whole_federation_accepts_its_run_and_no_weaker_one(
    terms: dict[str, Any], asked: tuple[Concession, ...]
) -> None:
    words = [word for concession in asked for word in ("--accept", concession.value)]
    assert consenting_options(config(**terms)) == ["--approve-roster", "kit", *words]
