"""HyFDCA with a server that leaves work or contributions out and adds up the rest as the records say.

The sums open, but they are of other models than the certificate claims. The parties refuse by the records.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_common.algorithms.hyfdca.messages import Figures
from fenchel_common.crypto.vectors import Vector
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_server.algorithms.hyfdca.exchange import HyfdcaAnswer
from fenchel_server.algorithms.hyfdca.round import HyfdcaRound
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from fenchel_server.algorithms.intake import Answers
from fenchel_server.contract import PhaseRequest
from support.hyfdca import CASE, GRIDS, LAST, settings
from support.problems import problem
from support.simulation import Simulation

BAD_ROUND = 4


class Dishonest(HyfdcaServer):
    @property
    def leaving(self) -> bool:
        """Whether the server leaves the protocol in the round under way."""
        return self._current().id == BAD_ROUND


def run_with(
    server: type[HyfdcaServer],
    grid: tuple[int, int] = (2, 2),
    client: type[HyfdcaClient] = HyfdcaClient,
    **values: Any,
) -> Simulation:
    case = problem(**CASE)
    chosen = settings(case, **{"stop": {"gap": None}, "h": 0.5, "certificate_every": 1, **values})
    run = Simulation(partition(case.data, grid=grid), chosen, client_half=client, server_half=server)
    run.run(BAD_ROUND - 1)
    return run


class SkipsProducts(Dishonest):
    def _product_request(self) -> PhaseRequest | None:
        return None if self.leaving else super()._product_request()


class LeavesOffProducts(Dishonest):
    """The products of one party are made, and neither on record nor counted; the party goes on to take part."""

    def _on_record(self, answers: Answers[HyfdcaAnswer]) -> Answers[HyfdcaAnswer]:
        if self._current().phase == "inner_product" and self.leaving:
            answers = Answers({who: good for who, good in answers.good.items() if who != LAST}, {})
        return super()._on_record(answers)


@pytest.mark.parametrize("certificate_every", [1, 0])
@pytest.mark.parametrize("server", [SkipsProducts, LeavesOffProducts])
def test_steps_and_certificates_by_the_products_of_an_earlier_model_are_refused(
    server: type[Dishonest], certificate_every: int
) -> None:
    run = run_with(server, certificate_every=certificate_every)
    with pytest.raises(InvalidInput, match="products: a party that takes part has given none in this round"):
        run.round()


def test_a_party_that_failed_openly_is_no_obstacle() -> None:
    run = run_with(HyfdcaServer)
    run.absent = lambda at, phase, who: (at, phase, who) == (BAD_ROUND, "inner_product", LAST)
    report = run.round()
    assert report.metrics.gap is None
    assert report.metrics.absences.keys() == {LAST}
    assert run.round().metrics.gap is not None


class KeepsOldContribution(Dishonest):
    """A contribution to the model is made and left off the record; its party is never asked to sync."""

    def _on_record(self, answers: Answers[HyfdcaAnswer]) -> Answers[HyfdcaAnswer]:
        if self._current().phase == "primal" and self.leaving:
            good = {who: answer for who, answer in answers.good.items() if who != LAST}
            answers = replace(answers, good=good, failed={LAST: "no result"})
        return super()._on_record(answers)

    def _sync_request(self) -> PhaseRequest | None:
        return None if self._current().id == BAD_ROUND + 1 else super()._sync_request()


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
def test_figures_of_a_model_that_lacks_the_latest_dual_variables_are_refused(
    grid: tuple[int, int], closing: bool
) -> None:
    run = run_with(KeepsOldContribution, grid)
    run.round()
    with pytest.raises(InvalidInput, match="figures: the model on record lacks this party's latest dual variables"):
        run.round(closing=closing)


class SeesLowLosses(HyfdcaClient):
    """As if figures that do not fit together had been added up."""

    def _opened_figures(self, totals: Vector, origins: Sequence[Any]) -> Figures:
        return replace(super()._opened_figures(totals, origins), mean_loss=0.0)


def test_figures_with_a_primal_objective_below_the_dual_one_are_refused() -> None:
    with pytest.raises(InvalidInput, match="totals: the primal objective is below the dual one"):
        run_with(HyfdcaServer, client=SeesLowLosses)


def test_figures_without_losses_are_no_certificate_and_not_compared() -> None:
    """If H follows D, the parties open the figures in every round, most of them without losses."""
    run = run_with(HyfdcaServer, h="auto", certificate_every=0)
    assert all(report.metrics.gap is None for report in run.reports)
    assert run.participants[LAST].certified_gap() is None


class ChoosesParties(Dishonest):
    def _begin(self, *args: Any, **values: Any) -> HyfdcaRound:
        current = super()._begin(*args, **values)
        if current.id == BAD_ROUND:
            choices = current.rules.choices
            shares = {who: share for who, share in choices.shares.items() if who == LAST}
            chosen = replace(choices, active=frozenset({LAST}), shares=shares)
            current.rules = replace(current.rules, choices=chosen)
        return current


@pytest.mark.parametrize("participation", ["all", "cyclic:3", "fraction:0.75"])
def test_a_server_cannot_choose_who_updates_samples(participation: str) -> None:
    run = run_with(ChoosesParties, participation=participation, certificate_every=0)
    with pytest.raises(Refusal, match="active: is not what the rule of participation gives for this round"):
        run.round()


def test_no_round_follows_a_closing_round() -> None:
    run = run_with(HyfdcaServer)
    run.round(closing=True)
    with pytest.raises(Refusal, match="closing: no round follows a closing round"):
        run.round()


def test_a_server_that_was_killed_in_a_closing_round_repeats_it() -> None:
    run = run_with(HyfdcaServer)
    snapshot = run.server.snapshot()
    first = run.round(closing=True)
    run.reports.pop()
    run.restore(snapshot)
    assert run.round(closing=True).metrics == first.metrics


class GoesOn(Dishonest):
    """The round after the last one updates samples like the others."""

    def _begin(self, *args: Any, **values: Any) -> HyfdcaRound:
        return super()._begin(*args, **{**values, "closing": False})


def test_rounds_beyond_those_that_were_agreed_change_nothing() -> None:
    run = run_with(GoesOn, stop={"gap": None, "rounds": BAD_ROUND - 1})
    with pytest.raises(Refusal, match="closing: a round after the last one that the settings allow"):
        run.round()


class AddsToRecords(Dishonest):
    """Choices that mean the same, in longer bytes."""

    def _put_on_record(self, contributors: Any, choices: bytes = b"") -> None:
        super()._put_on_record(contributors, choices + b"\x0a\x00" if self.leaving else choices)


def test_a_record_has_no_room_for_anything_but_its_choices() -> None:
    run = run_with(AddsToRecords)
    with pytest.raises(Refusal, match="choices: are not in the one form that these choices have"):
        run.round()


@pytest.mark.parametrize(("participation", "h"), [("all", 1), ("all", 0.5), ("cyclic:2", 0.5), ("fraction:0.5", 1)])
def test_an_honest_round_counts_for_all_parties_however_few_samples_it_updates(participation: str, h: float) -> None:
    run = run_with(HyfdcaServer, participation=participation, h=h, certificate_every=0)
    report = run.round()
    assert report.metrics.absences == {}
    run.weights(problem(**CASE).data.features)
    assert {who: half.transcript.book.rounds_done for who, half in run.participants.items()} == dict.fromkeys(
        run.names, BAD_ROUND
    )
