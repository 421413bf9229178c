"""HyFDCA with clients whose answers cannot be."""

from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import hyfdca_pb2
from fenchel_client.algorithms.hyfdca.book import HyfdcaBook
from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_common.algorithms.hyfdca.messages import SampleRange
from fenchel_common.errors import InvalidInput, TagMismatch
from fenchel_common.ids import ClientId
from fenchel_common.objectives import primal_point
from fenchel_common.wire.arrays import NUMBER_BYTES, numbers_to_bytes
from support.halves import changed
from support.hyfdca import CASE, FIRST, LAST, SECOND, simulation
from support.problems import problem

Array = NDArray[np.float64]


def beyond_its_bound(contribution: hyfdca_pb2.BlockVector) -> None:
    contribution.vector.plain.values = contribution.vector.plain.values[:-8] + (1 << 60).to_bytes(8, "little")


def of_two_terms(contribution: hyfdca_pb2.BlockVector) -> None:
    contribution.vector.plain.terms = 2


def without_a_block(contribution: hyfdca_pb2.BlockVector) -> None:
    contribution.blocks = b""


def of_a_foreign_block(contribution: hyfdca_pb2.BlockVector) -> None:
    contribution.blocks = numbers_to_bytes([1000]) + contribution.blocks[NUMBER_BYTES:]


def encrypted_under_another_key(contribution: hyfdca_pb2.BlockVector) -> None:
    contribution.vector.encrypted.key_fingerprint = b"another"


Tampering = Callable[[hyfdca_pb2.BlockVector], None]


@pytest.mark.parametrize(
    "tamper", [beyond_its_bound, of_two_terms, without_a_block, of_a_foreign_block, encrypted_under_another_key]
)
def test_a_share_that_cannot_be_is_rejected_and_the_run_goes_on(tamper: Tampering) -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    run.round()
    run.tampering[(2, "primal", LAST)] = changed(hyfdca_pb2.HyfdcaPrimalResult, lambda m: tamper(m.contribution))
    second = run.round()
    assert second.metrics.absences[LAST].startswith("primal: rejected: ")
    assert second.metrics.stale == (SECOND, LAST), "both hold the same features"
    w = primal_point(case.data.X, run.alpha(case.ids), lambda_=case.lambda_)
    assert run.round().metrics.stale == ()
    np.testing.assert_allclose(run.weights(case.data.features), w, rtol=0, atol=4 * 2.0**-33)


@pytest.mark.parametrize("liar", [FIRST, LAST])
def test_clients_that_open_other_figures_than_the_first_are_rejected(liar: ClientId) -> None:
    run = simulation(problem(**CASE), stop={"gap": None}, certificate_every=1, h=40)

    def lie(message: hyfdca_pb2.HyfdcaPrimalResult) -> None:
        message.figures[0] += 2.0**-32

    run.tampering[(2, "primal", liar)] = changed(hyfdca_pb2.HyfdcaPrimalResult, lie)
    run.round()
    rejected = run.names - {FIRST} if liar == FIRST else {LAST}
    assert run.round().metrics.absences == dict.fromkeys(
        rejected, f"primal: rejected: figures: differ from those that {FIRST} found"
    )
    assert run.round().metrics.absences == {}


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_dual_variables_that_cannot_be_are_refused_by_all_who_hold_their_samples(grid: tuple[int, int]) -> None:
    """A party adds more than any step can give; whoever holds the same samples notices, or the party itself."""
    run = simulation(problem(**CASE), grid, stop={"gap": None}, h=40)
    run.round()
    liar = run.clients[LAST]
    assert isinstance(liar, HyfdcaClient)

    def too_much(ranges: Sequence[SampleRange], _predictions: Array, _book: HyfdcaBook) -> Array:
        values = np.zeros(liar._rows.count)
        values[liar._rows.positions[ranges[0].block][0]] = 1.9
        return values

    with (
        patch.object(liar, "_steps", too_much),
        pytest.raises(InvalidInput, match="1 blocks are outside their interval: a party that holds"),
    ):
        run.round()


@pytest.mark.parametrize(("phase", "field"), [("local_dual", "changes"), ("primal", "contribution")])
def test_a_sum_with_an_altered_contribution_does_not_open(phase: str, field: str) -> None:
    """By a server, or by whoever carries messages: the tags of plain vectors are sums as well."""
    run = simulation(problem(**CASE), stop={"gap": None}, h=40)

    def alter(message: hyfdca_pb2.HyfdcaDualResult | hyfdca_pb2.HyfdcaPrimalResult) -> None:
        plain = getattr(message, field).vector.plain
        plain.values = (int.from_bytes(plain.values[:8], "little") ^ 1).to_bytes(8, "little") + plain.values[8:]

    kind = hyfdca_pb2.HyfdcaDualResult if phase == "local_dual" else hyfdca_pb2.HyfdcaPrimalResult
    run.tampering[(2, phase, LAST)] = changed(kind, alter)
    run.round()
    with pytest.raises(TagMismatch):
        run.run(3)


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff", b"\x0a\x02\x08\x01"])
@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_result_that_is_no_answer_is_rejected_and_the_run_goes_on(phase: str, body: bytes) -> None:
    run = simulation(problem(**CASE), stop={"gap": None}, h=40)
    run.tampering[(2, phase, FIRST)] = lambda _: body
    run.round()
    assert run.round().metrics.absences[FIRST].startswith(f"{phase}: rejected: ")
    assert run.round().metrics.absences == {}
