"""Attacks that fail on real parties succeed on parties that check nothing: so it is the checks that make them fail."""

from collections.abc import Iterator

import pytest

from fenchel_common.algorithms.dual import PRIMAL
from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks import ATTACKS
from fenchel_deploy.attacks import federation as recording
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.meddling import Played
from fenchel_deploy.attacks.opened_figures import labels_opened, row_of_hyfdca
from fenchel_deploy.attacks.protocol_cases import CHOSEN_ROW
from fenchel_deploy.attacks.sum_cases import Stale, scenarios
from fenchel_deploy.inprocess.parties import ATTEMPT
from support.credulous import CredulousParty, believe_everything


@pytest.fixture(scope="module")
def credulous() -> Iterator[Bench]:
    """A bench whose parties check nothing."""
    with pytest.MonkeyPatch.context() as patch, recording.bench(CredulousParty) as made:
        believe_everything(patch)
        yield made


@pytest.mark.parametrize("attack", [name for name, attack in ATTACKS.items() if attack.unchecked])
def test_an_attack_succeeds_on_parties_that_check_nothing(attack: str, credulous: Bench) -> None:
    played = list(ATTACKS[attack].findings(credulous, levels=[Privacy.SEALED]))
    assert set(ATTACKS[attack].unchecked) <= {finding.setting for finding in played if finding.succeeds}


def test_contributions_of_another_run_are_taken_where_they_are_in_clear_and_nothing_is_checked(
    credulous: Bench,
) -> None:
    """Under encryption they are random numbers, because each run has its own key."""
    played = Played(credulous.record(scenarios(Privacy.PAPER)["corrective"]))
    other = Played(credulous.record(scenarios(Privacy.PAPER, rounds=1)["corrective"]))
    for run in (played, other):
        run.round()
    other.round()
    stale = Stale(played, PRIMAL, other.results[ATTEMPT, 2, PRIMAL, played.layout.clients[0]])
    for _ in range(2):
        assert played.round(stale).metrics.absences == {}


def test_a_server_reads_a_row_and_its_label_where_parties_check_nothing(credulous: Bench) -> None:
    recorded = credulous.record(scenarios(Privacy.SEALED)["HyFDCA"])
    played = Played(recorded)
    victim = played.layout.clients[2]
    played.round()
    labels = labels_opened(played)
    assert labels is not None
    assert labels[victim].tolist() == recorded.truth.labels[victim].tolist()
    row = row_of_hyfdca(played, victim, CHOSEN_ROW, labels)
    assert row is not None
    assert row == pytest.approx(recorded.truth.rows[victim][CHOSEN_ROW], abs=1e-6)
