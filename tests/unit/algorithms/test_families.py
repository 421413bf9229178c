"""Each family states all that the rest of the system asks of it."""

from pathlib import Path

import numpy as np
import pytest

from fenchel_client.crypto.obfuscators import Obfuscator, ObfuscatorPool
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging.family import AVERAGING, LOG_ENTRIES
from fenchel_common.algorithms.corrective.family import CORRECTIVE, NUMBER_CIPHERTEXTS
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.family import Carried, Messages
from fenchel_common.algorithms.hyfdca.family import HYFDCA
from fenchel_common.algorithms.partial.family import PARTIAL
from fenchel_common.algorithms.row_leak import row_leak
from fenchel_common.algorithms.scoring.family import SCORING
from fenchel_common.errors import InvalidConfig
from fenchel_common.release import checked_goal
from fenchel_common.setup import FINISH, LAYOUT
from fenchel_common.wire.catalogue import phases_of
from support.corrective import CASE, at_level
from support.families import BY_FAMILY, EVERY
from support.layouts import client_layout, small_federation_layout
from support.problems import problem

ROOT = Path(__file__).resolve().parents[3]
FAMILIES = {"hyfdca": HYFDCA, "corrective": CORRECTIVE, "partial": PARTIAL, "averaging": AVERAGING, "scoring": SCORING}
PARTY_LAYOUT = client_layout({0: 3, 1: 3, 2: 1}, slots=3, feature_blocks={0: np.array([0, 1, 2]), 1: np.array([3])})


def test_every_algorithm_has_a_family_and_every_family_an_algorithm() -> None:
    found = {settings.family.name: settings.family for settings in EVERY.values()}
    assert found == FAMILIES
    assert all(settings.family is FAMILIES[name] for name, settings in BY_FAMILY.items())


@pytest.mark.parametrize("side", ["common", "server", "client"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_a_folder_of_its_name_on_every_side(side: str, family: str) -> None:
    assert (ROOT / side / f"fenchel_{side}" / "algorithms" / family / "__init__.py").is_file()


@pytest.mark.parametrize("name", EVERY)
def test_every_message_that_a_family_names_is_a_message(name: str) -> None:
    settings = EVERY[name]
    messages, phases = settings.family.messages(settings), phases_of(settings)
    for phase, exchange in messages.phases.items():
        assert phases[phase].inside["RoundTask.body"].DESCRIPTOR.name == exchange.task
        assert phases[phase].inside["RoundResult.body"].DESCRIPTOR.name == exchange.result
    assert phases[FINISH].inside["RoundTask.body"].DESCRIPTOR.name == messages.state
    preparation = phases[LAYOUT].inside.get("LayoutResult.preparation")
    assert (None if preparation is None else preparation.DESCRIPTOR.name) == messages.preparation


@pytest.mark.parametrize("name", EVERY)
def test_every_algorithm_counts_the_ciphertexts_of_a_round(name: str) -> None:
    settings = EVERY[name]
    masked_alone = settings.family is SCORING
    assert (settings.family.ciphertexts(settings, PARTY_LAYOUT) > 0) != masked_alone


def test_a_sealed_round_has_ciphertexts_by_feature_as_well() -> None:
    def counted(local: str, level: str) -> int:
        settings = SETTINGS["hyfdca"].parse({"local": local, "privacy": level})
        return settings.family.ciphertexts(settings, PARTY_LAYOUT)

    assert (counted("paper", "paper"), counted("paper", "sealed")) == (2 * 3, 2 * 3 + 2 + 1)
    sealed = 2 * 3 + 4 * 2 + NUMBER_CIPHERTEXTS
    assert (counted("corrective", "paper"), counted("corrective", "sealed")) == (2 * 3, sealed)


@pytest.mark.parametrize("labels", ["all", "first"])
@pytest.mark.parametrize("level", ["paper", "sealed"])
def test_a_corrective_round_takes_as_many_nonces_as_its_family_counts(
    level: str, labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = ObfuscatorPool.take

    def counted(pool: ObfuscatorPool, count: int) -> list[Obfuscator]:
        taken.append(count)
        return take(pool, count)

    monkeypatch.setattr(ObfuscatorPool, "take", counted)
    run = at_level(problem(**CASE), (2, 2), level, labels=labels)
    run.round()
    taken.clear()
    run.round()
    layouts = run.alignment.clients.values()
    assert isinstance(run.settings, CorrectiveSettings)
    made = sum(CORRECTIVE.ciphertexts(run.settings, layout) for layout in layouts)
    numbers = len(layouts) * NUMBER_CIPHERTEXTS if level == "sealed" else 0
    assert made - numbers < sum(taken) <= made if numbers else sum(taken) == made


def test_an_averaging_round_has_ciphertexts_for_each_class_of_the_loss() -> None:
    returned = 3
    for values, blocks in (({}, 2), ({"loss": "multinomial", "classes": 10}, 14)):
        settings = SETTINGS["scaffold"].parse(values)
        assert settings.family.ciphertexts(settings, PARTY_LAYOUT) == returned * blocks


def test_what_averaging_messages_carry_follows_from_the_vectors_of_the_algorithm() -> None:
    def messages(algorithm: str, **values: object) -> Messages:
        settings = SETTINGS[algorithm].parse(values)
        return settings.family.messages(settings)

    assert messages("fedavg").state_carries == Carried(by_feature=1 + LOG_ENTRIES)
    assert messages("hyfem").state_carries == Carried(by_feature=1 + LOG_ENTRIES + 1)
    wide = messages("scaffold", loss="multinomial", classes=10)
    assert {exchange.task_carries.width for exchange in wide.phases.values()} == {10}


def test_rows_leak_by_the_rule_of_the_family() -> None:
    for name, entry in SETTINGS.items():
        settings = entry.parse({"privacy": "paper"})
        assert (row_leak(settings, changes=1, width=5) is not None) == (name == "hyfdca")


def test_only_hyfdca_says_how_few_samples_a_round_may_change() -> None:
    layout = small_federation_layout()
    found = {name: settings.family.fewest_changes(settings, layout) for name, settings in BY_FAMILY.items()}
    assert found == {"hyfdca": 1, "corrective": None, "partial": None, "averaging": None, "scoring": None}


@pytest.mark.parametrize("name", EVERY)
def test_noise_on_a_released_model_needs_corrective_steps(name: str) -> None:
    if name == "hyfdca corrective":
        assert checked_goal(EVERY[name], gap=1e-3, quorum=1.0) == 1e-3
    else:
        with pytest.raises(InvalidConfig, match=r"release: needs algorithm = 'hyfdca' with settings.local"):
            checked_goal(EVERY[name], gap=1e-3, quorum=1.0)
