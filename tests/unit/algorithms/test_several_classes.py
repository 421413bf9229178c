"""Settings, codes and messages of runs of several classes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel.v1 import records_pb2
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Place
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.corrective.messages import PrimalChoices
from fenchel_common.classlabels import check_classes, class_code, class_name
from fenchel_common.data.canonical import canonical
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.leakage import Tally
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.arrays import doubles_to_bytes
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.corrective_classes import (
    class_primal_choices_from_bytes,
    class_primal_choices_to_bytes,
    class_results_from_bytes,
    class_round_choices_from_bytes,
    class_tasks_from_bytes,
)
from fenchel_common.wire.counting import values_in
from fenchel_common.wire.setup import model_release_from_bytes, model_release_to_bytes
from fenchel_deploy.reference import Problems
from support.classes import LAMBDA, NAMES, class_run, class_settings, coloured, objective, optimum

THREE = ["red", "green", "blue"]


@pytest.mark.parametrize("spelling", ["7", "007", "+7", "7.0", " 7 ", 7])
def test_all_spellings_of_a_number_are_the_class_of_that_number(spelling: str | int) -> None:
    assert class_code(spelling) == 7.0
    assert class_name(spelling) == "7"


@pytest.mark.parametrize("cell", ["red", " red", "Köln", "Ko\u0308ln", "-12", "0", "1234567890123456789", "1.5", "a/b"])
def test_the_code_of_a_name_is_that_of_its_canonical_text(cell: str) -> None:
    assert class_code(cell) == class_code(canonical(cell))
    assert class_name(cell) == canonical(cell)


def test_names_have_codes_of_their_own_that_floats_have_exactly() -> None:
    codes = [class_code(name) for name in ("red", "green", "Red", "1.5", "10000000000000000", "")]
    assert len(set(codes)) == len(codes)
    assert all(2.0**52 <= code < 2.0**53 and code.is_integer() for code in codes)


def test_labels_of_other_classes_are_counted_and_not_shown() -> None:
    check_classes(np.array([class_code("red"), 7.0]), ("7", "red"))
    with pytest.raises(InvalidInput, match="2 of 3 labels are none of the 2 names") as caught:
        check_classes(np.array([7.0, 8.125, 9.0]), ("7", "red"))
    assert "8.125" not in str(caught.value)


@pytest.mark.parametrize(
    ("algorithm", "values", "message"),
    [
        ("hyfdca", {"classes": ["yes", "no"]}, "classes: name 3 to 100 classes; a run of two classes needs no names"),
        ("hyfdca", {"classes": list(range(101))}, "classes: name 3 to 100 classes"),
        ("hyfdca", {"classes": ["1", "01", "2"]}, "classes: every class needs a name of its own"),
        ("hyfdca", {"classes": ["", "1", "2"]}, "classes: every class needs a name of its own"),
        ("hyfdca", {"classes": THREE, "local": "paper"}, "classes: this local method trains on two classes"),
        ("hyfdca", {"classes": THREE, "loss": "huber"}, "classes: huber predicts numbers and has no classes"),
        ("hyfdca", {"classes": THREE, "class_weight": {"4": 2.0}}, "class_weight: '4' is no class of the run"),
        ("hyfdca", {"classes": THREE, "class_weight": {"1": 0.0}}, "class_weight: "),
        ("fedavg", {"classes": THREE}, "classes: "),
        ("scaffpd", {"classes": THREE}, "classes: "),
    ],
)
def test_classes_that_a_run_cannot_have_are_refused(algorithm: str, values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        SETTINGS[algorithm].parse(values)


def test_noise_for_one_model_is_refused_with_several() -> None:
    release = {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0}
    values = {"name": "x", "settings": {"classes": THREE}, "stop": {"gap": 1e-3}, "round": {"quorum": 1.0}}
    with pytest.raises(InvalidConfig, match="a run of several classes cannot release models with it"):
        RunConfig.from_mapping({**values, "release": release})


def test_the_terms_of_a_run_keep_its_classes() -> None:
    config = RunConfig.from_mapping({"name": "x", "settings": {"classes": ["red", 7, "blue"]}})
    assert RunConfig.from_json(config.to_json()).algorithm_settings().class_names == ("red", "7", "blue")


def test_choices_survive_the_wire() -> None:
    choices = {0: PrimalChoices(True, True), 2: PrimalChoices(False, True)}
    assert class_primal_choices_from_bytes(class_primal_choices_to_bytes(choices), (0, 2)) == choices
    with pytest.raises(InvalidInput, match="accepted: must be problems under way"):
        class_primal_choices_from_bytes(class_primal_choices_to_bytes(choices), (1, 2))


@pytest.mark.parametrize("positions", [[], [0, 0], [2, 1], [0, 3]])
def test_problems_under_way_are_ascending_positions(positions: list[int]) -> None:
    message = pb.CorrectiveClassRoundChoices(
        classes=np.array(positions, dtype="<u4").tobytes(), round=pb.CorrectiveRoundChoices()
    )
    with pytest.raises(InvalidInput, match="classes"):
        class_round_choices_from_bytes(message.SerializeToString(), 3)


def test_messages_have_a_part_for_each_problem() -> None:
    with pytest.raises(InvalidInput, match="tasks: must be one for each of the 3 problems"):
        class_tasks_from_bytes(pb.CorrectiveClassTasks(tasks=[b"", b""]).SerializeToString(), 3)
    with pytest.raises(InvalidInput, match="results: must be one for each of the 1 problems"):
        class_results_from_bytes(pb.CorrectiveClassResults(results=[b"", b""]).SerializeToString(), 1)


def test_the_values_of_all_problems_are_counted() -> None:
    run = class_run(coloured())
    run.run(2)
    every = Tally()
    for _, phase, client, task, result in run.messages:
        messages = messages_of(phase, run.settings)
        parts = (class_tasks_from_bytes(task, 3), class_results_from_bytes(result, 3))
        whole = (records_pb2.RoundTask(body=task), records_pb2.RoundResult(body=result))
        kinds = ("CorrectiveClassTasks.tasks", "CorrectiveClassResults.results")
        for body, kind, of_problems in zip(whole, kinds, parts, strict=True):
            counted = values_in(type(body), body.SerializeToString(), inside=messages.inside)
            expected = sum((values_in(messages.inside[kind], part) for part in of_problems), Tally())
            assert all(counted[sight] == count for sight, count in expected.items()), (phase, client)
            every += expected
    assert every.total() > 1000


def test_no_pad_hides_two_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """All problems are in the same message, with one stamp: the fields tell them apart."""
    used: Counter[tuple[bytes, bytes, int]] = Counter()
    close = Seal.close

    def recorded(seal: Seal, *args: Any, field: str, places: Sequence[Place], **values: Any) -> Any:
        assert seal.stamp is not None
        label = Origin(seal.stamp, field).label()
        used.update((label, place.stretch, place.index) for place in places)
        return close(seal, *args, field=field, places=places, **values)

    monkeypatch.setattr(Seal, "close", recorded)
    run = class_run(coloured())
    run.round()
    run.round(available=run.names - {ClientId("party-03")})
    run.run(4)
    assert len(used) > 100
    assert set(used.values()) == {1}


def test_the_reference_of_a_demonstration_is_the_optimum_of_every_class() -> None:
    data = coloured()
    problems = Problems.of(data.X, data.y, loss=class_settings().loss_function, lambda_=LAMBDA, classes=NAMES)
    best = problems.solved()
    optima = [optimum(data, name, loss="hinge") for name in NAMES]
    assert best.primal == pytest.approx(np.mean(optima))
    assert best.least == min(optima)
    assert best.w.shape == (8, 3)
    weights = np.random.default_rng(0).standard_normal((8, 3))
    found = [objective(data, name, w, loss="hinge") for name, w in zip(NAMES, weights.T, strict=True)]
    assert problems.objective(weights) == pytest.approx(np.mean(found))
    predicted = np.array([class_code(name) for name in NAMES])[(data.X @ weights).argmax(axis=1)]
    assert problems.fit_of_classes(weights).accuracy == (predicted == data.y).mean()


def test_a_released_model_has_a_row_of_weights_for_each_feature() -> None:
    weights = np.arange(6.0).reshape(2, 3)
    sent = model_release_to_bytes(weights)
    np.testing.assert_array_equal(model_release_from_bytes(sent, features=2, classes=3), weights)
    assert model_release_from_bytes(model_release_to_bytes(np.zeros(0)), features=2, classes=3).shape == (0, 3)
    with pytest.raises(InvalidInput, match="weights: 6 finite numbers"):
        model_release_from_bytes(model_release_to_bytes(weights[:1]), features=2, classes=3)
    assert doubles_to_bytes(weights) == doubles_to_bytes(weights.reshape(-1))
