"""What a server may choose in a round on the averaging rails, and which choices every party refuses."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from fenchel_client.algorithms.averaging.book import AveragingBook
from fenchel_client.crypto.stamps import Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan, RoundChoices
from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE, MEASURED, SURVEY
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import NONCE_BYTES, ROUND, Moment
from fenchel_common.setup import FIRST_STATE, Company
from fenchel_common.wire.averaging_choices import closing_to_bytes, plan_to_bytes, round_choices_to_bytes
from support.averaging import Averaging
from support.drift import DATA, DRIFT

EVERYONE = tuple(ClientId(f"party-0{number}") for number in range(4))
FIRST, LAST = EVERYONE[0], EVERYONE[-1]
PLAN = RecordedPlan(dict.fromkeys(EVERYONE, 0.25))
CHOICES = RoundChoices(EVERYONE, EVERYONE, False, PLAN)


def first_book(*, grid: tuple[int, int] = (4, 1), rounds: int = 5) -> AveragingBook:
    values: dict[str, object] = {"measure_every": 2, "stop": {"rounds": rounds}}
    run = Averaging.of(DRIFT, partition(DATA, grid=grid), values)
    return run.clients[FIRST].first_book()


def record(phase: str, choices: bytes = b"", *, round_id: int = 1, by: tuple[ClientId, ...] = ()) -> StampedRecord:
    moment = Moment(1, RoundId(round_id), phase)
    stamps = {party: Stamp(party, moment, bytes(32), bytes(NONCE_BYTES)) for party in by}
    return StampedRecord(moment, stamps, choices)


def begun(choices: RoundChoices = CHOICES, *, round_id: int = 1) -> StampedRecord:
    return record(ROUND, round_choices_to_bytes(choices, EVERYONE), round_id=round_id)


REFUSED: dict[str, RoundChoices] = {
    "a trainer that is not present": replace(CHOICES, present=EVERYONE[:2]),
    "training in a closing round": replace(CHOICES, closing=True),
    "a negative weight": replace(CHOICES, plan=RecordedPlan(dict.fromkeys(EVERYONE, -1.0))),
    "a weight that is not finite": replace(CHOICES, plan=RecordedPlan(dict.fromkeys(EVERYONE, float("inf")))),
    "a weight that is no number": replace(CHOICES, plan=RecordedPlan(dict.fromkeys(EVERYONE, float("nan")))),
}


@pytest.mark.parametrize("choices", REFUSED.values(), ids=REFUSED)
def test_a_round_that_no_honest_server_begins_is_refused(choices: RoundChoices) -> None:
    with pytest.raises(InvalidInput):
        first_book().after(begun(choices))


def test_after_the_last_round_of_the_settings_a_round_can_only_close() -> None:
    book = first_book(rounds=5)
    with pytest.raises(InvalidInput, match="closing"):
        book.after(begun(round_id=6))
    closing = book.after(begun(RoundChoices(EVERYONE, (), True), round_id=6))
    assert closing.round is not None
    assert closing.round.measuring


def test_coordinates_are_chosen_only_where_every_party_holds_every_feature() -> None:
    chosen = replace(CHOICES, plan=replace(PLAN, coordinates=np.array([0, 2])))
    first_book().after(begun(chosen))
    with pytest.raises(InvalidInput, match=r"plan\.coordinates"):
        first_book(grid=(2, 2)).after(begun(chosen))


def test_phases_come_once_and_in_order_and_belong_to_their_round() -> None:
    book = first_book()
    trained = book.after(begun()).after(record(LOCAL, closing_to_bytes({"norms": 1.0}), by=EVERYONE))
    for late in (SURVEY, LOCAL):
        with pytest.raises(InvalidInput, match="does not follow"):
            trained.after(record(late, closing_to_bytes({}), by=EVERYONE))
    with pytest.raises(InvalidInput, match="does not follow"):
        trained.after(record(MEASURE, round_id=2))
    with pytest.raises(InvalidInput, match="phase"):
        trained.after(record("primal"))
    with pytest.raises(InvalidInput, match="no round"):
        book.after(record(LOCAL))
    assert trained.after(record(MEASURED)).log is trained.log


def test_a_survey_asks_those_that_may_train_and_comes_before_the_plan() -> None:
    unplanned = first_book().after(begun(RoundChoices(EVERYONE, EVERYONE[:2], False)))
    answered = EVERYONE[:1]
    plan = plan_to_bytes(RecordedPlan(dict.fromkeys(answered, 1.0)))
    surveyed = unplanned.after(record(SURVEY, plan, by=answered)).round
    assert surveyed is not None
    assert surveyed.trainers == answered
    with pytest.raises(InvalidInput, match="survey"):
        unplanned.after(record(SURVEY, plan, by=(LAST,)))
    with pytest.raises(InvalidInput, match="survey"):
        first_book().after(begun()).after(record(SURVEY, plan, by=answered))


def test_a_measurement_is_off_once_a_party_is_missing() -> None:
    book = first_book()

    def measures(after: AveragingBook) -> bool:
        assert after.round is not None
        return after.round.measuring

    there = replace(CHOICES, present=EVERYONE[:3], active=EVERYONE[:3], plan=None)
    assert measures(book.after(begun(round_id=2)))
    assert not measures(book.after(begun(round_id=1)))
    assert not measures(book.after(begun(there, round_id=2)))
    surveying = book.after(begun(replace(CHOICES, plan=None), round_id=2))
    answered = EVERYONE[:3]
    plan = plan_to_bytes(RecordedPlan(dict.fromkeys(answered, 1.0)))
    assert not measures(surveying.after(record(SURVEY, plan, round_id=2, by=answered)))
    trained = book.after(begun(round_id=2)).after(record(LOCAL, closing_to_bytes({}), round_id=2, by=EVERYONE))
    assert measures(trained.after(record(MEASURE, round_id=2, by=EVERYONE)))
    assert not measures(trained.after(record(MEASURE, round_id=2, by=answered)))


def test_a_company_has_the_trainers_beside_a_party_with_their_weights_and_the_state() -> None:
    def company(book: AveragingBook, plan: RecordedPlan = PLAN) -> Company | None:
        return book.after(begun(replace(CHOICES, plan=plan))).company(LOCAL)

    first = company(first_book())
    weighted, alone = (
        RecordedPlan({**PLAN.weights, LAST: 0.5}),
        RecordedPlan(dict.fromkeys(EVERYONE, 0.0) | {LAST: 1.0}),
    )
    assert first is not None
    assert first.state == FIRST_STATE
    assert first == company(first_book(), replace(PLAN, told={"norms": 2.0}))
    assert first != company(first_book(), weighted)
    assert company(first_book(), alone) is None, "this party does not train"
    assert company(first_book(grid=(2, 2))) is None, "its features have one other holder"
    trained = first_book().after(begun()).after(record(LOCAL, closing_to_bytes({}), by=EVERYONE))
    later = trained.after(begun(round_id=2)).company(LOCAL)
    assert later is not None
    assert (later.members, later.state == FIRST_STATE) == (first.members, False)


def test_whose_contributions_make_up_an_entry_follows_from_the_record() -> None:
    """In a grid of 2 × 2 the first and the third party hold the same features."""
    book = first_book(grid=(2, 2)).after(begun())
    trained = book.after(record(LOCAL, closing_to_bytes({"norms": 1.0}), by=(FIRST, EVERYONE[1])))
    (entry,) = trained.log.entries
    (block,) = entry.blocks
    assert trained.log.own.holders[block] == (FIRST, EVERYONE[2])
    assert [origin.stamp.party for origin in entry.origins("step")(block)] == [FIRST]
    assert entry.weight(block) == 0.25
    elsewhere = book.after(record(LOCAL, closing_to_bytes({"norms": 1.0}), by=(EVERYONE[1], LAST)))
    assert elsewhere.log.entries == (), "nobody gave a feature that this party holds"
    nobody = book.after(record(LOCAL))
    assert nobody.log.entries == ()


def settings_of(algorithm: str, **values: object) -> AveragingSettings:
    settings = SETTINGS[algorithm].parse(values)
    assert isinstance(settings, AveragingSettings)
    return settings


OCCASION = Occasion(RoundId(1), clients=4, samples=40, party=FIRST, own_samples=10, length=6)
SIZES = {"clients": 4.0, "share": 0.1}
BAD_PLANS: dict[str, tuple[AveragingSettings, Mapping[str, float], float]] = {
    "more than all rows": (settings_of("fedavg"), {}, 1.5),
    "another number of parties": (settings_of("feddyn"), SIZES | {"clients": 5.0}, 1.0),
    "another number of parties, told by apda": (settings_of("apda"), SIZES | {"clients": 5.0}, 1.0),
    "another number of samples": (settings_of("5gcs"), SIZES | {"share": 1.0}, 1.0),
    "no momentum told": (settings_of("dualfl"), SIZES | {"tolerance": 1.0}, 1.0),
    "a momentum above 1": (settings_of("dualfl"), SIZES | {"tolerance": 1.0, "beta": 1.1}, 1.0),
    "another number of steps": (settings_of("scaffnew", p=1.0), SIZES | {"steps": 2.0}, 1.0),
    "weights above those of a mixture": (settings_of("afl"), {}, 0.3),
    "a weight above the bound of cvar": (settings_of("scaffpd", ambiguity="cvar", alpha=1.0), {}, 0.26),
    "a larger step than the first": (settings_of("scaffpd", step=0.1), {"tau": 1.1}, 0.25),
    "a snapshot after the last step": (settings_of("drfa", local_steps=3), {"snapshot_step": 4.0}, 0.25),
    "more draws than the settings have": (settings_of("drfa", sampled=3), {"snapshot_step": 1.0}, 1.0),
    "a switch above 1": (settings_of("fedsgm"), {"switch": 1.5}, 1.0),
    "coordinates of no draw": (settings_of("fedsgm", compression="rand_k", k=2), {"switch": 0.5}, 1.0),
    "too few votes": (settings_of("fedsgm", compression="top_k", k=3), {"switch": 0.5}, 1.0),
    "lanes that overlap": (
        settings_of("fedsgm", compression="quantised"),
        {"switch": 0.5, "quantum": 0.1, "limit": 60.0, "lane_bits": 2.0},
        1.0,
    ),
}


@pytest.mark.parametrize(("settings", "told", "weight"), BAD_PLANS.values(), ids=BAD_PLANS)
def test_a_plan_beyond_the_bounds_of_its_algorithm_is_refused(
    settings: AveragingSettings, told: Numbers, weight: float
) -> None:
    plan = RecordedPlan(dict.fromkeys(EVERYONE, weight), told)
    with pytest.raises(InvalidInput):
        settings.check_plan(plan, OCCASION)


BAD_CLOSINGS: dict[str, Callable[[], None]] = {
    "nobody contributed": lambda: settings_of("scaffold").check_closing({"share": 0.0}, PLAN, OCCASION),
    "other numbers than the plan's": lambda: settings_of("dualfl").check_closing(
        SIZES | {"clients": 2.0}, replace(PLAN, told=SIZES), OCCASION
    ),
    "a number of the plan left out": lambda: settings_of("scaffpd").check_closing(
        {}, replace(PLAN, told={"tau": 1.0}), OCCASION
    ),
    "a sum of nothing": lambda: settings_of("qffl").check_closing({"total": 0.0}, PLAN, OCCASION),
    "a weight above 1": lambda: settings_of("fedsgm").check_closing({"share": 2.0}, PLAN, OCCASION),
}


@pytest.mark.parametrize("check", BAD_CLOSINGS.values(), ids=BAD_CLOSINGS)
def test_numbers_at_the_end_of_a_round_beyond_the_bounds_are_refused(check: Callable[[], None]) -> None:
    with pytest.raises(InvalidInput):
        check()


def test_the_coordinates_of_rand_k_are_recomputed_by_every_party() -> None:
    settings = FedsgmSettings.parse({"compression": "rand_k", "k": 2, "seed": 5})
    due = settings.drawn_coordinates(RoundId(1), 6)
    plan = RecordedPlan(dict.fromkeys(EVERYONE, 1.0), {"switch": 0.5}, due)
    settings.check_plan(plan, OCCASION)
    with pytest.raises(InvalidInput, match="coordinates"):
        settings.check_plan(replace(plan, coordinates=(due + 1) % 6), OCCASION)
