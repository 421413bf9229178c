"""No tampered sum of any kind of message is accepted; a campaign against broken checks finds that they are broken."""

from random import Random

import numpy as np
import pytest
from gmpy2 import mpz

from fenchel_common.crypto.tags import TAG_PRIME, Tagger
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.setup import LAYOUT
from fenchel_deploy.forgery.campaign import Target, campaign, counts_of
from fenchel_deploy.forgery.cases import CASES, Case, Recorded, recorded
from fenchel_deploy.forgery.openings import Opening
from fenchel_deploy.forgery.tampering import Mixture, drawn

TRIES = 1000
MASKED_TRIES = 100
"""Taking masks off takes the time here that is saved where a tampering need not be decrypted."""
PAILLIER, MASKS = (next(case for case in CASES if case.cipher == cipher) for cipher in ("paillier", "masks"))
SMALL_CASES = [case for case in reversed(CASES) if case.name in ("hyfem", "fedsgm") and case.cipher == "paillier"]
KINDS = {
    "hyfdca corrective": {
        "layout norms",
        "layout marks",
        "inner_product gram",
        "inner_product point",
        "inner_product vertex",
        "local_dual alpha",
        "local_dual figures",
        "local_dual point",
        "local_dual weights",
        "primal conjugates_and_products",
        "primal model",
        "primal point",
        "primal vertex",
    },
    "hyfdca paper": {
        "layout norms",
        "layout marks",
        "inner_product products",
        "local_dual changes",
        "local_dual figures",
        "primal contribution",
        "sync contribution",
    },
    "hyfem": {
        "layout marks",
        "local products",
        "local figures + measure figures",
        "local vectors.model",
    },
    "scaffold": {
        "local figures",
        "local vectors.model",
        "local vectors.control",
        "local vectors.own_control",
        "local checkpoint.model",
        "local checkpoint.control",
    },
    "fedsgm": {"local figures", "local vectors.update"},
}


@pytest.fixture(scope="module")
def run() -> Recorded:
    """A run of corrective steps at the level `sealed`."""
    return recorded(PAILLIER)


@pytest.fixture(scope="module")
def masked() -> Recorded:
    """The same with masks."""
    return recorded(MASKS)


@pytest.fixture(params=["run", "masked"])
def either(request: pytest.FixtureRequest) -> Recorded:
    made = request.getfixturevalue(request.param)
    assert isinstance(made, Recorded)
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.level} {case.cipher}")
def test_random_and_chosen_tamperings_of_each_kind_are_refused(case: Case) -> None:
    tries = TRIES if case.cipher == "paillier" else MASKED_TRIES
    counts = campaign(random=tries, chosen=tries, seed=1, cases=[case])
    assert [count for count in counts if not count.sound] == []
    assert {(count.random, count.chosen) for count in counts} == {(tries, tries)}
    assert {count.kind for count in counts} == KINDS[case.name]


def test_the_cases_of_a_campaign_are_spread_over_processes_and_their_counts_come_in_order() -> None:
    counts = campaign(random=1, chosen=1, seed=1, cases=SMALL_CASES)
    assert list(dict.fromkeys(count.algorithm for count in counts)) == [case.name for case in SMALL_CASES]
    assert [count for count in counts if not count.sound] == []


def openings_of(run: Recorded) -> list[Opening]:
    """One opening of each kind."""
    return list({opening.kind: opening for opening in run.record.opened}.values())


def test_an_honest_sum_is_accepted(either: Recorded) -> None:
    for opening in openings_of(either):
        assert Target(opening, either).accepts_honest()


def test_there_is_something_to_replay_of_every_kind(either: Recorded) -> None:
    for opening in openings_of(either):
        around = Target(opening, either).around
        assert around.contributions
        assert around.replays or opening.kind.startswith(LAYOUT), "a run has one layout"
        assert around.foreign, opening.kind


def test_a_ciphertext_decrypts_to_the_plaintext_of_its_mixture(run: Recorded) -> None:
    random = Random(5)
    assert run.cipher is not None
    for opening in openings_of(run):
        target = Target(opening, run)
        tamperings = drawn(opening, target.around, random)
        for _ in range(12):
            mixture, like = next(tamperings), opening.block.vector
            assert isinstance(like, EncryptedVector)
            number = mpz.from_bytes(mixture.ciphertext(like).ciphertexts, "little")
            (plaintext,) = run.cipher.key.raw_decrypt([number])
            assert (plaintext - mixture.plaintext) % like.key.n == 0


def test_a_campaign_finds_a_check_that_does_not_look_at_tags(either: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tagger, "check", lambda *_: None)
    case = Case("hyfdca", "sealed")
    # Of a vector of few numbers most changes hit empty slots, whose values nobody reads.
    counts = list(counts_of(case, either, random=1500, chosen_ones=100, seed=1))
    assert [count for count in counts if not count.random_accepted] == []
    assert sum(count.chosen_accepted for count in counts) > 0.5 * sum(count.chosen for count in counts)


def test_a_server_that_knew_the_weights_could_forge(run: Recorded) -> None:
    """The tag of a value that was moved by one unit is moved by the weight of its slot, modulo q."""
    assert run.cipher is not None
    for opening in openings_of(run):
        layout = opening.block.vector.layout
        (weight,) = run.cipher.tags.tagger.tags(layout.grid(np.ones(1, dtype=np.int64)), [0])
        target = Target(opening, run)
        changes = (weight, weight - TAG_PRIME)
        moved = [Mixture(((1, opening.block),), 1 + (change << layout.slots_width)) for change in changes]
        assert any(target.accepts(mixture, decrypted=True) for mixture in moved), opening.kind
