"""The moments of features at the server, which adds up the parties' encrypted counts, sums and sums of squares."""

from collections.abc import Mapping
from functools import partial

from fenchel_common.blocks import check_fresh, joined, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.moments import MOMENT_FIELDS
from fenchel_common.setup import LayoutResult
from fenchel_common.wire.labels import layout_result_from_bytes, moment_sums_to_bytes
from fenchel_server.rejection import read_or_reject


def read_moments(
    results: Mapping[ClientId, bytes], *, layout: FederationLayout, key: RunKey
) -> dict[ClientId, LayoutResult]:
    """Each party's answer to its layout in a run with `[features]`.

    An answer has moments if and only if another party holds some of the same features, and neither preparation nor
    marks. Raises `ResultRejected`.
    """
    return {
        client: read_or_reject(
            client,
            partial(_moments, blocks=layout.feature_index.shared_of(client), slots=layout.feature_slots, key=key),
            data,
        )
        for client, data in results.items()
    }


def _moments(data: bytes, *, blocks: tuple[int, ...], slots: int, key: RunKey) -> LayoutResult:
    result = layout_result_from_bytes(data, blocks=(), slots=slots, key=key, feature_blocks=frozenset(blocks))
    if result.preparation or result.marks is not None:
        raise InvalidInput("preparation, marks: are due once the features are prepared")
    if len(result.moments) != (MOMENT_FIELDS if blocks else 0):
        raise InvalidInput("moments: must be there if and only if another party holds the same features")
    for vector in result.moments:
        check_fresh(vector, blocks, "moments")
    return result


def moment_tasks(results: Mapping[ClientId, LayoutResult], record: bytes) -> dict[ClientId, bytes]:
    """For each party the sums over all holders of its features; `record` is that of the phase `layout`."""
    given = [result.moments for result in results.values() if result.moments]
    sums = [summed(vectors) for vectors in zip(*given, strict=True)]
    tasks = {}
    for client, result in results.items():
        own = [joined(vector.blocks, parts) for vector, parts in zip(result.moments, sums, strict=False)]
        tasks[client] = moment_sums_to_bytes([one for one in own if one is not None], record)
    return tasks
