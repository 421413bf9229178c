"""The attack bench: every attack succeeds where a leak is known, so that it is known to bite, and fails where safety is
claimed."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fenchel_common.crypto.curve import hash_to_curve
from fenchel_common.errors import FederationFailed, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import AlignmentWord
from fenchel_common.wire.alignment import Listing, listing_from_bytes, listing_to_bytes, phase_name
from fenchel_deploy.attacks import ATTACKS, markdown, outsider, run_attacks
from fenchel_deploy.attacks import federation as recording
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import EVERY_LEVEL, FAILS, LEVELS, SUCCEEDS, Claims, Finding
from fenchel_deploy.attacks.protocol_cases import DICTIONARY
from fenchel_deploy.attacks.pseudonyms import by_public_hashes, lists_of
from fenchel_deploy.attacks.recorded import Scenario
from fenchel_deploy.attacks.views import Transcript

PLAIN_AND_SEALED = (Privacy.PLAIN, Privacy.SEALED)
LEVELS_TRIED: Mapping[str, Sequence[Privacy]] = {
    # On many rounds: what these read is in clear at the level `paper` too, and there the same to the last bit.
    "rows-from-recurring-steps": PLAIN_AND_SEALED,
    "rows-from-subspaces": PLAIN_AND_SEALED,
    "words-from-differences": PLAIN_AND_SEALED,
    # Many runs of their own; tags are checked in the same way at the level `paper`.
    "foreign-tasks": PLAIN_AND_SEALED,
    "doubled-contribution": PLAIN_AND_SEALED,
    "replay": PLAIN_AND_SEALED,
    "invented-sums": PLAIN_AND_SEALED,
    "equivocation": PLAIN_AND_SEALED,
    # By design, whatever the level.
    "labels-by-sign": [Privacy.PLAIN],
    "shared-key": [Privacy.SEALED],
}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with recording.bench() as made:
        yield made


@pytest.fixture(scope="module")
def found(bench: Bench) -> Callable[[str], list[Finding]]:
    @cache
    def findings(attack: str) -> list[Finding]:
        return list(ATTACKS[attack].findings(bench, levels=LEVELS_TRIED.get(attack, LEVELS)))

    return findings


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_succeeds_where_a_leak_is_known_and_fails_where_safety_is_claimed(
    found: Callable[[str], list[Finding]], attack: str
) -> None:
    findings = found(attack)
    assert {finding.setting for finding in findings} == ATTACKS[attack].claims.keys()
    wrong = [finding for finding in findings if finding.succeeds != (finding.claim == "leaks")]
    assert wrong == []


def test_no_attack_by_a_server_alone_is_said_to_succeed_on_a_sealed_run() -> None:
    alone = ("server", "server that leaves the protocol")
    claimed = [
        (attack.name, setting)
        for attack in ATTACKS.values()
        for setting, claims in attack.claims.items()
        if attack.who in alone and "leaks" in (claims.get(Privacy.SEALED), claims.get(EVERY_LEVEL))
    ]
    assert claimed == []


def test_every_kind_of_safety_has_an_attack_that_bites_where_there_is_none() -> None:
    """An attack that is said to succeed at a level that is tried does so, or the test of its claims fails."""
    by_rows = [name for name in ATTACKS if name.startswith(("rows-", "words-"))]
    assert len(by_rows) >= 5
    for name in by_rows:
        claims = ATTACKS[name].claims.values()
        assert any(claimed[level] == "leaks" for claimed in claims for level in LEVELS_TRIED.get(name, LEVELS)), name


def test_a_sealed_run_leaves_the_server_no_nearer_to_rows_than_to_rows_of_strangers(
    found: Callable[[str], list[Finding]],
) -> None:
    names = ("rows-from-iterates", "rows-from-products", "rows-from-differences", "rows-from-vertices")
    sealed = [finding for name in names for finding in found(name) if finding.level == "sealed"]
    nearer = [finding.score - float(finding.note.rpartition("chance ")[2]) for finding in sealed]
    # The guesses are at random: measured standard deviations are 0.05 of one difference and 0.01 of their mean.
    assert max(np.abs(nearer)) < 0.3
    assert abs(np.mean(nearer)) < 0.06
    # Some 500 guesses in ten dimensions, each with a chance of 8e-6 to be as near as a row that counts as found: three
    # of them have one of 1e-8.
    assert sum(int(finding.note.partition(" of 40 rows found")[0]) for finding in sealed) < 3


def test_every_attack_is_in_the_documentation_with_what_is_claimed_of_it() -> None:
    table = {(attack, who, setting): tuple(cells) for attack, who, setting, _, *cells in _table_of_attacks()}
    assert table == {
        (attack.name, attack.who, setting): (SUCCEEDS if setting in attack.unchecked else "", *_cells_of(claims))
        for attack in ATTACKS.values()
        for setting, claims in attack.claims.items()
    }


def test_what_an_eavesdropper_looks_for_is_found_without_tls(found: Callable[[str], list[Finding]]) -> None:
    listening = next(finding for finding in found("outsider") if finding.setting == "eavesdropping")
    looked_for = re.fullmatch(r"0 of (\d+) stretches of 16 bytes that are found without TLS", listening.note)
    assert looked_for is not None
    assert int(looked_for[1]) > 1000


def test_listening_to_a_party_that_does_not_connect_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outsider, "WAIT_S", 0.3)
    transcript = bench.record(Scenario(Privacy.PAPER, h=1)).transcript
    client, stranger = transcript.layout.clients[0], next(iter(bench.kits(2, "elsewhere").values()))
    with pytest.raises(FederationFailed, match="did not connect"):
        outsider.listen_in(transcript, client, server=bench.server_kit(4), party=stranger)


def test_strangers_count_as_refused_only_where_a_member_is_let_in(bench: Bench) -> None:
    stranger = next(iter(bench.kits(2, "elsewhere").values()))
    with pytest.raises(FederationFailed, match="not even a member"):
        outsider.calls_let_in(bench.server_kit(4), [None], member=stranger)


def with_bare_ids(told: Listing, bare: bytes) -> Listing:
    """The listing with plain points in the place of its first elements."""
    if not told.pieces:
        return replace(told, ids=replace(told.ids, elements=bare + told.ids.elements[len(bare) :]))
    piece = told.pieces[0]
    return replace(told, pieces=(replace(piece, elements=bare + piece.elements[len(bare) :]),))


@pytest.mark.parametrize(("alignment", "steps"), [("blinders", 5), ("ring", 4)])
def test_ids_that_went_round_without_a_secret_would_be_recognised(
    bench: Bench, alignment: AlignmentWord, steps: int
) -> None:
    """Also if it was at the first step alone, and others raised them later."""
    transcript = bench.record(Scenario(Privacy.SEALED, h=1, alignment=alignment, rounds=0)).transcript
    victim, ids = transcript.layout.clients[-1], ["breast_cancer-03", "breast_cancer-11"]
    assert len(lists_of(transcript, victim)) == steps
    bare = b"".join(hash_to_curve(sample, transcript.run) for sample in ids)
    messages = []
    for message in transcript.messages:
        if message.client == victim and message.phase == phase_name(0):
            told = with_bare_ids(listing_from_bytes(message.result), bare)
            message = replace(message, result=listing_to_bytes(told))
        messages.append(message)
    guessed = by_public_hashes(replace(transcript, messages=tuple(messages)), victim, DICTIONARY)
    assert guessed == (*ids, *[None] * (len(guessed) - len(ids)))


def test_the_server_is_given_no_secret() -> None:
    """A transcript has a public key, or none; what it holds is what crossed the server."""
    assert {field.name for field in fields(Transcript)} == {"run", "config", "key", "layout", "messages"}


def test_no_secret_crosses_the_server(bench: Bench) -> None:
    recorded = bench.record(Scenario(Privacy.SEALED, h=1))
    view = next(iter(recorded.views.values()))
    crossed = b"".join(message.task + message.result for message in recorded.transcript.messages)
    # Any stretch of the key would do: its bytes are random.
    secret = view.secrets.private_key
    assert len(secret) > 200
    assert not any(secret[start : start + 24] in crossed for start in range(0, len(secret) - 24, 24) if start > 300)
    assert view.secrets.alignment_secret not in crossed


def test_the_server_takes_results_that_are_the_parties_own(bench: Bench) -> None:
    recorded = bench.record(Scenario(Privacy.PAPER, h=1))
    first = [message for message in recorded.transcript.messages if message.round_id == 1]
    given: dict[str, dict[ClientId, bytes]] = {}
    for message in first:
        given.setdefault(message.phase, {})[message.client] = message.result
    assert recorded.left_out(given) == {}


def test_the_table_has_a_line_for_each_finding_and_unknown_attacks_are_named() -> None:
    told: list[str] = []
    findings = run_attacks(["dictionary-in-passing"], tell=told.append)
    assert told == ["dictionary-in-passing"]
    assert findings[0].keys() == {
        "attack", "who", "level", "setting", "succeeds", "score", "measure", "claim", "note", "unchecked"
    }  # fmt: skip
    table = markdown(findings).splitlines()
    assert len(table) == 2 + len(findings)
    assert table[2].startswith(
        "| dictionary-in-passing | party | blinders | exact matches |  | fails 0.00: 60 elements tried"
    )
    with pytest.raises(InvalidInput, match="attack: 'nothing' is unknown; use one of rows-from-iterates"):
        run_attacks(["nothing"])


def _table_of_attacks() -> list[list[str]]:
    """The lines of the table in the documentation; of each level nothing but how the attack ended."""
    lines = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text().splitlines()
    start = lines.index(markdown([]).splitlines()[0]) + 2
    table = []
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines[start:]):
        *row, plain, paper, sealed = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        table.append([*row, *(re.sub(r" .*", "", cell) for cell in (plain, paper, sealed))])
    return table


def _cells_of(claims: Claims) -> tuple[str, ...]:
    words = {level: SUCCEEDS if claim == "leaks" else FAILS for level, claim in claims.items()}
    return (words[EVERY_LEVEL], "same", "same") if EVERY_LEVEL in words else tuple(words.get(n, "") for n in LEVELS)
