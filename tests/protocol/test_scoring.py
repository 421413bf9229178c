"""A scoring run: the asking party opens the sums of all parts, and nobody else can."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.scoring.client import ScoringClient
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.crypto.words import MaskedVector
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FenchelError, InvalidInput, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.wire import scoring as wire
from fenchel_common.wire.records import round_task_from_bytes
from fenchel_server.algorithms.scoring.server import ScoringServer
from fenchel_server.contract import Outcome
from support.halves import Halves
from support.keys import MASKS
from support.problems import problem

CASE = problem(rows=60, columns=9)
ASKER = ClientId("party-00")
OTHER = ClientId("party-01")
SETTINGS = ScoringSettings.parse({"asker": ASKER, "model": "run-1"})


def terms() -> list[Shard]:
    """Three parties, each with three columns of all rows; the first one asks."""
    shards = partition(CASE.data, grid=(1, 3))
    return [replace(shard, y=np.ones(len(shard.ids)) if not number else None) for number, shard in enumerate(shards)]


def run_of(shards: list[Shard]) -> Halves[ScoringClient, ScoringServer]:
    return Halves(shards, SETTINGS, client_half=ScoringClient, server_half=ScoringServer, key=MASKS)


def scores(run: Halves[ScoringClient, ScoringServer], party: ClientId = ASKER) -> NDArray[np.float64]:
    return run.participants[party].final_model(run.server.last_state(party))


def expected(run: Halves[ScoringClient, ScoringServer]) -> NDArray[np.float64]:
    sums = dict(zip(CASE.ids, np.asarray(CASE.data.X).sum(axis=1), strict=True))
    ids = run.shards[ASKER].ids
    return np.array([sums[ids[row]] for row in run.alignment.clients[ASKER].rows])


def test_the_asking_party_gets_the_scores_up_to_fixed_point_and_the_others_nothing() -> None:
    run = run_of(terms())
    report = run.round()
    assert report.outcome is Outcome.FINISHED
    np.testing.assert_allclose(scores(run), expected(run), rtol=0.0, atol=3 * 2.0**-33)
    for party in run.names - {ASKER}:
        assert len(scores(run, party)) == 0
        assert not wire.scoring_sums_from_bytes(body_of(run.server.last_state(party)), run.clients[party]._scope)


def body_of(state: bytes) -> bytes:
    return round_task_from_bytes(state)[2]


def test_a_restarted_server_and_a_restarted_asking_party_still_get_there() -> None:
    run = run_of(terms())
    run.round()
    layout = run.alignment.federation
    run.server = ScoringServer.restore(run.server.snapshot(), settings=SETTINGS, layout=layout, key=MASKS)
    run.restart(ASKER)
    np.testing.assert_allclose(scores(run), expected(run), rtol=0.0, atol=3 * 2.0**-33)


def test_another_holder_cannot_open_the_sums_that_the_asking_party_gets() -> None:
    """Their masks are those between the asking party and each other one, which a third party does not have."""
    run = run_of(terms())
    run.round()
    run.participants[OTHER].final_model(run.server.last_state(OTHER))
    state, curious = body_of(run.server.last_state(ASKER)), run.clients[OTHER]
    curious._asks = True
    with pytest.raises(FenchelError):
        curious.final_model(state, run.participants[OTHER].transcript.book)


def test_what_the_server_has_tells_no_score() -> None:
    run = run_of(terms())
    run.round()
    for _, _, client, _, answer in run.messages:
        part = wire.scoring_result_from_bytes(answer, run.clients[client]._scope)
        assert (part is None) == (client == ASKER)
        assert part is None or isinstance(part.vector, MaskedVector)
    sums = wire.scoring_sums_from_bytes(body_of(run.server.last_state(ASKER)), run.clients[ASKER]._scope)
    assert sums is not None
    assert isinstance(sums.vector, MaskedVector)
    words = sums.vector.integers.astype(np.int64).astype(np.float64) * 2.0**-32
    assert np.abs(words).max() > 2.0**20


def test_sums_that_lack_a_part_or_are_altered_do_not_open() -> None:
    run = run_of(terms())
    run.round()
    state = body_of(run.server.last_state(ASKER))
    scores(run)
    altered = bytearray(state)
    altered[-200] ^= 1
    book = run.participants[ASKER].transcript.book
    with pytest.raises(FenchelError):
        run.clients[ASKER].final_model(bytes(altered), book)
    with pytest.raises(InvalidInput, match="all asked rows"):
        run.clients[ASKER].final_model(b"", book)


def test_without_one_of_the_parties_there_are_no_scores() -> None:
    run = run_of(terms())
    with pytest.raises(ResultRejected, match="it is not there"):
        run.round(available=run.names - {OTHER})
    run.absent = lambda _round, _phase, client: client == OTHER
    with pytest.raises(ResultRejected):
        run.round()


def test_two_parties_that_ask_are_refused() -> None:
    shards = [replace(shard, y=np.ones(len(shard.ids))) for shard in terms()]
    with pytest.raises(InvalidInput, match="nobody else may"):
        run_of(shards)
