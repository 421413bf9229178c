"""Settings: what may stand where, and what a person is told otherwise."""

import pytest

from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.settings import Participation
from fenchel_common.errors import InvalidConfig


def test_the_defaults_are_corrective_steps_of_a_sealed_run_with_everyone_taking_part() -> None:
    settings = HyfdcaSettings.parse({})
    assert (settings.loss, settings.local, settings.h, settings.participation) == ("hinge", "corrective", "auto", "all")
    assert settings.privacy == "sealed"
    assert not settings.asks_products_twice


def test_lambda_goes_by_its_name_in_a_configuration() -> None:
    assert HyfdcaSettings.parse({"lambda": 0.5}).lambda_ == 0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lamda": 1.0}, "lamda: unknown key; the known ones are loss, lambda, "),
        ({"stop": {"round": 3}}, "stop.round: unknown key; the known ones are gap, rounds, seconds"),
        ({"lambda": 0.0}, "lambda: input should be greater"),
        ({"lambda": float("nan")}, "lambda: "),
        ({"loss": "huber"}, "loss: choose one of hinge, smoothed_hinge, logistic"),
        ({"local": "other"}, "local: input should be 'paper', 'theory' or 'corrective'"),
        ({"h": 0}, "h: use auto, a whole number of samples from 1, or a fraction"),
        ({"h": 1.5}, "h: use auto"),
        ({"h": True}, "h: use auto"),
        ({"h": "many"}, "h: use auto"),
        ({"participation": "some"}, "participation: use all, fraction:P"),
        ({"participation": "fraction:0"}, "participation: use all, fraction:P"),
        ({"participation": "fraction:nan"}, "participation: use all, fraction:P"),
        ({"participation": "cyclic:1"}, "participation: use all, fraction:P"),
        ({"participation": "all:1"}, "participation: use all, fraction:P"),
        ({"gamma": 1.5}, "gamma: input should be less than or equal to 1"),
        ({"certificate_every": -1}, "certificate_every: "),
        ({"seed": -1}, "seed: "),
        ({"seed": "1"}, "seed: "),
        ({"stop": {"gap": 0.0}}, "stop.gap: input should be greater than 0"),
        ({"stop": {"rounds": 0}}, "stop.rounds: "),
        ({"stop": 3}, "stop: "),
        ({"h": 4}, 'h: corrective steps have no such setting; leave it out, or use local = "paper"'),
        ({"local": "corrective", "gamma": 0.5}, "gamma: corrective steps have no such setting"),
        ({"local": "corrective", "participation": "cyclic:2"}, "participation: corrective steps need all"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_with_the_cure(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        HyfdcaSettings.parse(values)
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
    paper = {"local": "paper"}
    cyclic = {**paper, "participation": "cyclic:2"}
    assert HyfdcaSettings.parse(cyclic).asks_products_twice
    assert not HyfdcaSettings.parse({**cyclic, "second_inner_product": False}).asks_products_twice
    assert HyfdcaSettings.parse({**paper, "second_inner_product": True}).asks_products_twice


def test_certificates_are_given_every_round_where_they_cost_nothing() -> None:
    assert HyfdcaSettings.parse({"local": "paper"}).certificates_every == 5
    assert HyfdcaSettings.parse({"local": "corrective"}).certificates_every == 1
    assert HyfdcaSettings.parse({"local": "corrective", "certificate_every": 0}).certificates_every == 0
