"""The search for extremes or quantiles at the server, which adds up the parties' encrypted counts."""

from collections.abc import Mapping
from functools import partial

from fenchel_common.blocks import check_fresh, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.ranges import RANKS, THRESHOLDS
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import LayoutResult
from fenchel_common.wire.labels import count_sums_to_bytes, layout_result_from_bytes
from fenchel_server.rejection import read_or_reject


def read_counts(
    results: Mapping[ClientId, bytes], *, config: RunConfig, layout: FederationLayout, key: RunKey
) -> dict[ClientId, LayoutResult]:
    """Each party's answer before a step of the search.

    An answer has counts if and only if another party holds some of the same features, and neither preparation nor
    marks. Raises `ResultRejected`.
    """
    assert config.range_scale is not None, "the run has a search"
    due = RANKS[config.range_scale] * THRESHOLDS
    return {
        client: read_or_reject(
            client,
            partial(_counts, blocks=layout.feature_index.shared_of(client), due=due, layout=layout, key=key),
            data,
        )
        for client, data in results.items()
    }


def _counts(data: bytes, *, blocks: tuple[int, ...], due: int, layout: FederationLayout, key: RunKey) -> LayoutResult:
    result = layout_result_from_bytes(
        data, blocks=(), slots=layout.feature_slots, key=key, feature_blocks=frozenset(blocks)
    )
    if result.preparation or result.marks is not None:
        raise InvalidInput("preparation, marks: are due once the features are prepared")
    if len(result.counts) != (due if blocks else 0):
        raise InvalidInput("counts: must be there if and only if another party holds the same features")
    for vector in result.counts:
        check_fresh(vector, blocks, "counts")
    return result


def count_tasks(results: Mapping[ClientId, LayoutResult], record: bytes) -> dict[ClientId, bytes]:
    """For each party the sums over all holders of its features; `record` is that of the phase before."""
    sums = [summed(vectors) for vectors in zip(*(one.counts for one in results.values() if one.counts), strict=True)]
    tasks = {}
    for client, result in results.items():
        own = [added.on(vector.blocks) for vector, added in zip(result.counts, sums, strict=False)]
        tasks[client] = count_sums_to_bytes([one for one in own if one is not None], record)
    return tasks
