"""A party whose values leave the range of the vectors says so a few times, and then takes no further part."""

from pathlib import Path

import pytest

from fenchel.v1.averaging_pb2 import AveragingResult
from fenchel_client.runrecords import MAX_REFUSALS
from fenchel_client.task import Task
from fenchel_common.errors import Refusal
from fenchel_common.ids import RoundId
from fenchel_common.metrics import LastCertificate
from fenchel_common.wire.records import round_result_from_bytes
from fenchel_common.wire.setup import phase_result_from_bytes
from fenchel_server.federationrun import FederationRun
from support.ceremony import HOLDER, OTHER, RUN, Federation, config


def test_that_values_diverged_counts_towards_the_lock(tmp_path: Path) -> None:
    """Whether they did depends on what was opened: the server must not ask for it again and again."""
    federation = Federation(tmp_path)
    terms = config(algorithm="fedavg", settings={"lambda": 100.0, "a": 1e6})
    done = federation.set_up(terms)
    run = FederationRun(terms, federation.kits["server"].roster, certificate=LastCertificate)

    def answer(attempt: int) -> AveragingResult:
        step = run.restore(done.record, done.snapshot).begin_round(
            RoundId(1), frozenset({HOLDER, OTHER}), frozenset({HOLDER, OTHER}), attempt=attempt
        )
        task = Task(RUN, RoundId(1), step.phase, step.tasks[OTHER], attempt=attempt)
        result, *_ = phase_result_from_bytes(federation.parties[OTHER].handle(task))
        return AveragingResult.FromString(round_result_from_bytes(result, OTHER)[0])

    for attempt in range(2, MAX_REFUSALS + 2):
        assert answer(attempt).diverged
    with pytest.raises(Refusal) as refused:
        answer(MAX_REFUSALS + 2)
    assert "takes no further part" in refused.value.public_reason
