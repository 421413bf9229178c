"""Settings of HyFDCA: what may stand where, and what a person is told otherwise."""

import pytest

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.settings import Participation
from fenchel_common.errors import InvalidConfig
from fenchel_deploy.cli.algorithms import describe_algorithms

ENTRY = SETTINGS["hyfdca"]
PAPER = {"local": "paper"}


def test_the_defaults_are_corrective_steps_of_a_sealed_run_with_everyone_taking_part() -> None:
    settings = ENTRY.parse({})
    assert isinstance(settings, CorrectiveSettings)
    assert (settings.loss, settings.local, settings.participation) == ("hinge", "corrective", "all")
    assert settings.privacy == "sealed"


@pytest.mark.parametrize(
    ("local", "kind"), [("corrective", CorrectiveSettings), ("paper", HyfdcaSettings), ("theory", HyfdcaSettings)]
)
def test_local_chooses_the_class_of_the_settings(local: str, kind: type) -> None:
    settings = ENTRY.parse({"local": local})
    assert type(settings) is kind
    assert settings.model_dump()["local"] == local


def test_corrective_steps_have_none_of_the_settings_of_the_others() -> None:
    own = set(HyfdcaSettings.model_fields) - set(CorrectiveSettings.model_fields)
    assert own == {"h", "gamma", "row_norm", "second_inner_product"}
    assert set(CorrectiveSettings.model_fields) - {"intercept", "path"} < set(HyfdcaSettings.model_fields)


def test_the_steps_of_the_paper_have_no_default_of_their_own() -> None:
    with pytest.raises(InvalidConfig, match="local: field required"):
        HyfdcaSettings.parse({})


def test_a_person_is_shown_all_parameters_whatever_local_is() -> None:
    (shown,) = [listed for listed in describe_algorithms() if listed["name"] == "hyfdca"]
    defaults = {parameter["name"]: parameter["default"] for parameter in shown["parameters"]}
    assert defaults == {
        "loss": "hinge",
        "lambda": 1e-2,
        "participation": "all",
        "class_weight": None,
        "sample_weights": False,
        "largest_weight": 20.0,
        "target_scale": "none",
        "classes": (),
        "local": "corrective",
        "certificate_every": 1,
        "h": "auto",
        "second_inner_product": None,
        "gamma": None,
        "row_norm": "measured",
    }


def test_lambda_goes_by_its_name_in_a_configuration() -> None:
    assert ENTRY.parse({"lambda": 0.5}).lambda_ == 0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lamda": 1.0}, "lamda: unknown key; the known ones are loss, lambda, "),
        ({"stop": {"round": 3}}, "stop.round: unknown key; the known ones are gap, rounds, seconds"),
        ({"lambda": 0.0}, "lambda: input should be greater"),
        ({"lambda": float("nan")}, "lambda: "),
        ({"loss": "cubic"}, "loss: choose one of hinge, smoothed_hinge, squared_hinge, logistic, squared, huber"),
        ({"local": "other"}, "local: choose one of corrective, paper, theory"),
        ({"local": ["paper"]}, "local: choose one of corrective, paper, theory"),
        ({**PAPER, "h": 0}, "h: use auto, a whole number of samples from 1, or a fraction"),
        ({**PAPER, "h": 1.5}, "h: use auto"),
        ({**PAPER, "h": True}, "h: use auto"),
        ({**PAPER, "h": "many"}, "h: use auto"),
        ({"participation": "some"}, "participation: use all, fraction:P"),
        ({**PAPER, "participation": "fraction:0"}, "participation: use all, fraction:P"),
        ({**PAPER, "participation": "fraction:nan"}, "participation: use all, fraction:P"),
        ({**PAPER, "participation": "cyclic:1"}, "participation: use all, fraction:P"),
        (
            {**PAPER, "participation": "cyclic:2", "certificate_every": 1},
            "certificate_every: 1 leaves no round to train",
        ),
        ({**PAPER, "participation": "all:1"}, "participation: use all, fraction:P"),
        ({**PAPER, "gamma": 1.5}, "gamma: input should be less than or equal to 1"),
        ({"certificate_every": -1}, "certificate_every: "),
        ({"seed": -1}, "seed: "),
        ({"seed": "1"}, "seed: "),
        ({"stop": {"gap": 0.0}}, "stop.gap: input should be greater than 0"),
        ({"stop": {"rounds": 0}}, "stop.rounds: "),
        ({"stop": 3}, "stop: "),
        ({"h": 4}, 'h: corrective steps have no such setting; leave it out, or use local = "paper"'),
        ({"local": "corrective", "gamma": 0.5}, "gamma: corrective steps have no such setting"),
        ({"second_inner_product": True}, "second_inner_product: corrective steps have no such setting"),
        ({"participation": "cyclic:2", "certificate_every": 1}, "certificate_every: 1 leaves no round to train in"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_with_the_cure(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        ENTRY.parse(values)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("all", Participation("all")),
        ("fraction:0.5", Participation("fraction", fraction=0.5)),
        ("cyclic:3", Participation("cyclic", cycle=3)),
    ],
)
def test_participation_is_read_from_its_text(text: str, rule: Participation) -> None:
    assert HyfdcaSettings.parse({"local": "paper", "participation": text}).participation_rule == rule


def test_the_second_inner_product_is_on_unless_all_take_part_or_it_is_switched() -> None:
    cyclic = {**PAPER, "participation": "cyclic:2"}
    assert HyfdcaSettings.parse(cyclic).asks_products_twice
    assert not HyfdcaSettings.parse({**cyclic, "second_inner_product": False}).asks_products_twice
    assert HyfdcaSettings.parse({**PAPER, "second_inner_product": True}).asks_products_twice
    assert not HyfdcaSettings.parse(PAPER).asks_products_twice


def test_certificates_are_given_every_round_where_they_cost_nothing() -> None:
    assert HyfdcaSettings.parse(PAPER).certificate_every == 5
    assert CorrectiveSettings.parse({}).certificate_every == 1
    assert CorrectiveSettings.parse({"certificate_every": 0}).certificate_every == 0
