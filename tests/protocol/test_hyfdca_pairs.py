"""Masks between pairs in HyFDCA: sums of contributions of different rounds open, single contributions do not."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_client.crypto.masks import MaskCipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_common.data.partition import partition
from fenchel_common.errors import TagMismatch
from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks import ATTACKS
from fenchel_deploy.attacks import federation as recording
from fenchel_deploy.forgery.openings import Record
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from support.halves import Absent, nobody_is_absent
from support.hyfdca import CASE, FIRST, LAST, SECOND, absent_in, settings
from support.keys import MASKS
from support.problems import problem
from support.simulation import Simulation

PROBLEM = problem(**CASE)
THIRD = ClientId("party-02")
ROUNDS = 8
WHOLE_ROWS, WHOLE_COLUMNS = (4, 1), (1, 4)


class Watched(Simulation):
    """A run with masks whose parties put all that they seal and open on record."""

    def __init__(self, *args: Any, **values: Any) -> None:
        self.watched = Record(None)
        super().__init__(*args, **values)

    def make_seal(self, pads: Pads) -> Seal:
        return self.watched.seal(pads)


def run_of(grid: tuple[int, int], *, masked: bool, absent: Absent = nobody_is_absent, **values: Any) -> Watched:
    chosen = settings(PROBLEM, **{"privacy": "sealed", "certificate_every": 3, "stop": {"gap": None}, **values})
    key = {"key": MASKS} if masked else {}
    shards = partition(PROBLEM.data, grid=grid)
    made = Watched(shards, chosen, client_half=HyfdcaClient, server_half=HyfdcaServer, **key)
    made.absent = absent
    return made


def restart_of(client: ClientId, after: int) -> Callable[[Watched, int], frozenset[ClientId]]:
    """A party that loses its memory after a round."""

    def restarted(run: Watched, round_id: int) -> frozenset[ClientId]:
        if round_id != after + 1:
            return frozenset()
        run.restart(client)
        return frozenset({client})

    return restarted


def server_killed(run: Watched, round_id: int) -> frozenset[ClientId]:
    """The server dies after every second round, and goes on from its snapshot in a higher attempt."""
    if round_id % 2:
        run.restore(run.server.snapshot())
    return frozenset()


def nothing_happens(_run: Watched, _round_id: int) -> frozenset[ClientId]:
    return frozenset()


Happening = Callable[[Watched, int], frozenset[ClientId]]
AWAY = {2: frozenset({FIRST}), 3: frozenset({FIRST, THIRD}), 5: frozenset({LAST})}
STORIES: dict[str, tuple[Happening, Absent]] = {
    "nothing": (nothing_happens, nobody_is_absent),
    "a party restarts": (restart_of(SECOND, 4), nobody_is_absent),
    "the server is killed": (server_killed, nobody_is_absent),
    **{
        f"a party fails in {phase}": (nothing_happens, absent_in(4, phase, SECOND))
        for phase in ("sync", "inner_product", "local_dual", "primal", "inner_product_after")
    },
}


def told(run: Watched, happening: Happening) -> tuple[list[float], list[int]]:
    """The model after some rounds in which parties stay away, and the number of samples updated in each."""
    for round_id in range(1, ROUNDS + 1):
        run.round(available=run.names - AWAY.get(round_id, frozenset()), restarted=happening(run, round_id))
    weights: list[float] = run.weights(PROBLEM.data.features).tolist()
    return weights, [report.metrics.samples_updated for report in run.reports]


@pytest.mark.parametrize("participation", ["all", "fraction:0.75", "cyclic:2"])
@pytest.mark.parametrize("grid", [WHOLE_ROWS, WHOLE_COLUMNS], ids=["whole rows", "whole columns"])
@pytest.mark.parametrize("story", STORIES)
def test_masks_give_the_model_of_the_run_in_clear_whoever_stays_away(
    story: str, grid: tuple[int, int], participation: str
) -> None:
    happening, absent = STORIES[story]
    in_clear = told(run_of(grid, masked=False, absent=absent, participation=participation), happening)
    assert told(run_of(grid, masked=True, absent=absent, participation=participation), happening) == in_clear
    assert np.abs(in_clear[0]).max() > 0.0


@pytest.mark.parametrize("local", ["paper", "theory"])
@pytest.mark.parametrize("grid", [WHOLE_ROWS, WHOLE_COLUMNS], ids=["whole rows", "whole columns"])
def test_no_contribution_opens_alone_with_the_keys_of_another_holder(grid: tuple[int, int], local: str) -> None:
    """Not of a party that contributes with others; whole sums open, as every round shows."""
    run = run_of(grid, masked=True, local=local, h=0.5)
    run.run(4)
    places = {opening.place.token: opening.place for opening in run.watched.opened}
    tried: dict[str, int] = {}
    drawn_alone = 0
    for (origin, token), block in run.watched.sealed.items():
        place = places.get(token)
        if place is None or len(place.holders) == 1 or origin.field not in ("products", "changes", "contribution"):
            continue
        other = next(holder for holder in place.holders if holder != origin.stamp.party)
        cipher = run.ciphers[other]
        assert isinstance(cipher, MaskCipher)
        try:
            cipher.decrypt(block.vector, origins=[[origin]], places=[place])
        except TagMismatch:
            tried[origin.field] = tried.get(origin.field, 0) + 1
        else:
            assert origin.field == "changes", "whoever alone draws from a block changes it alone"
            drawn_alone += 1
    shared = {"products", "changes"} if grid == WHOLE_COLUMNS else {"contribution"}
    assert set(tried) == shared
    assert drawn_alone < tried.get("changes", 1)


@pytest.mark.parametrize("masked", [True, False], ids=["masks", "in clear"])
@pytest.mark.parametrize("phase", ["inner_product", "local_dual"])
def test_nobody_updates_a_block_in_a_round_in_which_one_of_its_contributors_fails(phase: str, masked: bool) -> None:
    run = run_of(WHOLE_COLUMNS, masked=masked, h=1.0, absent=absent_in(3, phase, LAST))
    report = run.run(3)
    assert report.metrics.samples_updated == 0
    assert set(report.metrics.absences) == {LAST}
    # The weights are those that entered the last round.
    before = run.weights(PROBLEM.data.features)
    run.round(available=run.names - {LAST})
    np.testing.assert_array_equal(run.weights(PROBLEM.data.features), before)
    assert run.reports[-1].metrics.samples_updated > 0
    run.round()
    assert (run.weights(PROBLEM.data.features) != before).any()


def test_parties_whose_contributions_to_the_model_are_given_up_are_out_of_date_until_they_sync() -> None:
    run = run_of(WHOLE_ROWS, masked=True, absent=absent_in(3, "primal", LAST), certificate_every=1)
    run.run(2)
    assert run.round().metrics.stale == tuple(sorted(run.names))
    assert run.round().metrics.gap is not None
    assert next(phase for at, phase in run.phases if at == 4) == "sync"
    assert run.reports[-1].metrics.stale == ()


def test_without_masks_between_pairs_a_server_with_a_party_finds_rows_in_single_contributions() -> None:
    """With them, it finds none (`test_attacks.py`)."""

    def no_masks(_cipher: Any, _origin: Any, places: Any, _among: Any, like: Any) -> Any:
        return np.zeros((len(places), like.shape[1]), dtype=like.dtype)

    with patch.object(MaskCipher, "_pair_masks", no_masks), recording.bench() as bench:
        findings = list(ATTACKS["shared-masks"].findings(bench, levels=[Privacy.SEALED]))
    wrongly_safe = {finding.setting for finding in findings if finding.succeeds and finding.claim == "safe"}
    assert wrongly_safe == {"h = 1, differences, features of three"}
