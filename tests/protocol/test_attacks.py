"""The attack bench: every attack succeeds where a leak is known, so that it is known to bite, and fails where safety is
claimed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache

import numpy as np
import pytest

from fenchel.v1 import vectors_pb2
from fenchel_common.algorithms.hyfdca import PRIMAL, PRODUCT_FORMAT
from fenchel_common.algorithms.settings import Privacy
from fenchel_common.crypto.packing import slot_layout
from fenchel_common.crypto.paillier import PublicKey, concatenate
from fenchel_common.errors import ChecksumMismatch, InvalidInput, NotForUs, Refusal, WrongKey
from fenchel_common.ids import ClientId
from fenchel_common.setup import KEY_TAKE
from fenchel_common.wire.vectors import format_to_proto
from fenchel_deploy.attacks import ATTACKS, markdown, run_attacks
from fenchel_deploy.attacks import federation as recording
from fenchel_deploy.attacks.federation import Bench, Recorded, Scenario
from fenchel_deploy.attacks.findings import LEVELS, Finding
from fenchel_deploy.attacks.rows import Estimate, rows_from_differences, rows_from_subspaces
from fenchel_deploy.attacks.scoring import row_score
from fenchel_deploy.attacks.tables import ALL_DENSE
from fenchel_deploy.attacks.views import PublicEyes, Transcript
from support.keys import cipher, private_key

LEVELS_TRIED: Mapping[str, Sequence[Privacy]] = {
    # On many rounds: what these read is in clear at the level `paper` too, and there the same to the last bit.
    "rows-from-recurring-steps": ["plain"],
    "rows-from-subspaces": ["plain"],
    "words-from-differences": ["plain", "sealed"],
    # By design, whatever the level.
    "labels-by-sign": ["plain"],
    "shared-key": ["sealed"],
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
    assert findings
    wrong = [finding for finding in findings if finding.succeeds != (finding.claim == "leaks")]
    assert wrong == []


def test_every_kind_of_safety_has_an_attack_that_bites_where_there_is_none(
    found: Callable[[str], list[Finding]],
) -> None:
    by_rows = [name for name in ATTACKS if name.startswith(("rows-", "words-"))]
    assert len(by_rows) >= 5
    for name in by_rows:
        assert any(finding.succeeds for finding in found(name)), name


def test_a_sealed_run_leaves_the_server_no_nearer_to_rows_than_to_rows_of_strangers(
    found: Callable[[str], list[Finding]],
) -> None:
    for name in ("rows-from-iterates", "rows-from-products", "rows-from-differences", "rows-from-vertices"):
        for finding in found(name):
            if finding.level == "sealed":
                chance = float(finding.note.rpartition("chance ")[2])
                assert finding.score == pytest.approx(chance, abs=0.3)
                assert finding.note.startswith("0 of 40 rows found")


def test_the_server_is_given_no_secret() -> None:
    """A transcript has a public key, or none; what it holds is what crossed the server."""
    assert {field.name for field in fields(Transcript)} == {"run", "config", "key", "layout", "messages"}


def test_no_secret_crosses_the_server(bench: Bench) -> None:
    recorded = bench.record(Scenario("sealed", h=1))
    view = next(iter(recorded.views.values()))
    crossed = b"".join(message.task + message.result for message in recorded.transcript.messages)
    # Any stretch of the key would do: its bytes are random.
    secret = view.secrets.private_key
    assert len(secret) > 200
    assert not any(secret[start : start + 24] in crossed for start in range(0, len(secret) - 24, 24) if start > 300)
    assert view.secrets.alignment_secret not in crossed


@pytest.mark.parametrize("level", LEVELS)
def test_a_party_takes_the_task_that_is_its_own(bench: Bench, level: Privacy) -> None:
    """So what it refuses of others' tasks is refused for being others'."""
    recorded = bench.record(Scenario(level, h=1))
    for client in recorded.transcript.layout.clients:
        last = [message for message in recorded.transcript.of(client) if message.phase == PRIMAL][-1]
        assert recorded.ask(client, last.round_id, last.phase, last.task)


def test_the_server_takes_results_that_are_the_parties_own(bench: Bench) -> None:
    recorded = bench.record(Scenario("paper", h=1))
    first = [message for message in recorded.transcript.messages if message.round_id == 1]
    given: dict[str, dict[ClientId, bytes]] = {}
    for message in first:
        given.setdefault(message.phase, {})[message.client] = message.result
    assert recorded.left_out(given) == {}


def test_a_task_of_another_party_is_refused_for_its_blocks(bench: Bench) -> None:
    recorded = bench.record(Scenario("sealed", h=1))
    first, _, third, _ = recorded.transcript.layout.clients
    task = [message for message in recorded.transcript.of(third) if message.phase == PRIMAL][-1]
    with pytest.raises(InvalidInput, match="names a block that this client does not hold"):
        recorded.ask(first, task.round_id, task.phase, task.task)


def test_ciphertext_of_another_run_is_refused_for_its_key(bench: Bench) -> None:
    recorded, other = bench.record(Scenario("paper", h=1)), _other_run(bench)
    client = recorded.transcript.layout.clients[0]
    foreign = [message for message in other.transcript.of(client) if message.phase == PRIMAL][-1]
    with pytest.raises((WrongKey, ChecksumMismatch)):
        recorded.ask(client, foreign.round_id, foreign.phase, foreign.task)


def test_a_key_that_was_sealed_for_another_is_refused_as_such_and_the_right_one_is_taken(bench: Bench) -> None:
    recorded = bench.record(Scenario("sealed", h=1, rounds=0))
    _, second, third, _ = recorded.transcript.layout.clients
    tasks = {message.client: message.task for message in recorded.transcript.messages if message.phase == KEY_TAKE}
    with pytest.raises(Refusal) as refused:
        recorded.ask(second, 0, KEY_TAKE, tasks[third])
    assert isinstance(refused.value.__cause__, NotForUs)
    assert recorded.ask(second, 0, KEY_TAKE, tasks[second])


def test_a_ciphertext_without_a_nonce_would_be_read_without_the_key() -> None:
    """What the sealed runs' ciphertexts are tested for is really found: also between two that share a nonce."""
    key, values = private_key().public_key, np.array([0.5, -1.25, 3.0])
    eyes = PublicEyes(key)
    assert np.array_equal(eyes.read(_without_nonce(values, key)), values)
    first, second = _with_one_nonce(values, np.array([1.0, 1.0, -4.0]), key)
    assert not np.allclose(eyes.read(first), values)
    assert np.array_equal(eyes.difference(first, second), np.array([-0.5, -2.25, 7.0]))


def test_ciphertexts_of_this_project_are_not_read_without_the_key() -> None:
    key, values = private_key().public_key, np.array([0.5, -1.25, 3.0])
    encrypted = cipher().encrypt(values, PRODUCT_FORMAT)
    message = vectors_pb2.Vector(
        encrypted=vectors_pb2.EncryptedVector(
            format=format_to_proto(PRODUCT_FORMAT), length=3, terms=1, ciphertexts=encrypted.ciphertexts
        )
    )
    assert np.abs(PublicEyes(key).read(message) - values).max() > 1.0


@pytest.mark.parametrize(("changes", "finds_all"), [(1, True), (4, True), (9, True), (10, False), (20, False)])
def test_rows_are_found_while_fewer_of_them_change_in_a_round_than_there_are_features(
    changes: int, finds_all: bool
) -> None:
    rng = np.random.default_rng(5)
    rows, strangers = rng.standard_normal((24, 10)), rng.standard_normal((24, 10))
    moved, drawn = {}, {}
    for number in range(600):
        chosen = (rng.integers(24) + np.arange(changes)) % 24
        moved[number] = np.rint(rng.standard_normal(changes) @ rows[chosen] * 2.0**32) / 2.0**32
        drawn[number] = sorted(chosen.tolist())
    score = row_score(rows_from_subspaces(moved, drawn), rows, strangers)
    assert score.found == (24 if finds_all else 0)
    single = row_score(rows_from_differences(moved, drawn), rows, strangers)
    assert (single.found == 24) == (changes == 1)


def test_a_score_is_one_for_the_row_itself_and_like_chance_for_anything_else() -> None:
    rng = np.random.default_rng(6)
    rows, strangers = rng.standard_normal((10, 30)), rng.standard_normal((10, 30))
    right = row_score([Estimate(-2.0 * rows[3], 3)], rows, strangers)
    assert right.value == pytest.approx(1.0)
    assert (right.found, right.total) == (1, 10)
    wrong = row_score([Estimate(rng.standard_normal(30), place) for place in range(10)], rows, strangers)
    assert wrong.found == 0
    assert wrong.value == pytest.approx(wrong.chance, abs=0.15)


def test_the_table_puts_levels_side_by_side() -> None:
    one = {"attack": "a", "role": "server", "setting": "h = 1", "measure": "cosine", "claim": "leaks", "note": "n"}
    findings = [
        {**one, "level": "paper", "succeeds": True, "score": 1.0},
        {**one, "level": "sealed", "succeeds": False, "score": 0.25},
    ]
    assert markdown(findings).splitlines() == [
        "| attack | who | setting | measure | plain | paper | sealed |",
        "|---|---|---|---|---|---|---|",
        "| a | server | h = 1 | cosine |  | **succeeds** 1.00: n | fails 0.25: n |",
    ]


def test_the_table_has_a_line_for_each_finding_and_unknown_attacks_are_named() -> None:
    told: list[str] = []
    findings = run_attacks(["dictionary-in-the-ring"], tell=told.append)
    assert told == ["dictionary-in-the-ring"]
    assert findings[0].keys() == {
        "attack", "role", "level", "setting", "succeeds", "score", "measure", "claim", "note"
    }  # fmt: skip
    table = markdown(findings).splitlines()
    assert len(table) == 2 + len(findings)
    assert table[2].startswith(
        "| dictionary-in-the-ring | party | ecdh | exact matches | fails 0.00: 60 elements tried"
    )
    with pytest.raises(InvalidInput, match="attack: 'nothing' is unknown; use one of rows-from-iterates"):
        run_attacks(["nothing"])


def _other_run(bench: Bench) -> Recorded:
    return bench.record(Scenario("paper", loss="logistic", h=ALL_DENSE))


def _without_nonce(values: np.ndarray[tuple[int], np.dtype[np.float64]], key: PublicKey) -> vectors_pb2.Vector:
    first, _ = _with_one_nonce(values, values, key, nonce=1)
    return first


def _with_one_nonce(
    one: np.ndarray[tuple[int], np.dtype[np.float64]],
    other: np.ndarray[tuple[int], np.dtype[np.float64]],
    key: PublicKey,
    *,
    nonce: int = 12345,
) -> tuple[vectors_pb2.Vector, vectors_pb2.Vector]:
    """Textbook Paillier, (1 + m·n)·r^n mod n², with the same r for both."""
    layout = slot_layout(PRODUCT_FORMAT, key.bits)
    blinding = pow(nonce, int(key.n), int(key.n_squared))
    made = []
    for values in (one, other):
        numbers = [(1 + m * key.n) * blinding % key.n_squared for m in layout.pack(PRODUCT_FORMAT.quantise(values))]
        encrypted = vectors_pb2.EncryptedVector(
            format=format_to_proto(PRODUCT_FORMAT),
            length=len(values),
            terms=1,
            key_fingerprint=key.fingerprint,
            ciphertexts=concatenate(numbers, key.ciphertext_bytes),
        )
        made.append(vectors_pb2.Vector(encrypted=encrypted))
    return made[0], made[1]
