"""The lengths of rows at the server, which adds up the parties' encrypted squares."""

from collections.abc import Mapping
from functools import partial

from fenchel_common.blocks import check_fresh, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.setup import LayoutResult
from fenchel_common.wire.labels import layout_result_from_bytes, length_sums_to_bytes
from fenchel_server.rejection import read_or_reject


def read_lengths(
    results: Mapping[ClientId, bytes], *, layout: FederationLayout, key: RunKey
) -> dict[ClientId, LayoutResult]:
    """Each party's answer once its features are prepared, in a run that divides rows by their lengths.

    An answer has lengths if and only if another party holds some of the same samples, and neither preparation nor
    marks. Raises `ResultRejected`.
    """
    return {
        client: read_or_reject(
            client,
            partial(_lengths, blocks=layout.sample_index.shared_of(client), slots=layout.slots, key=key),
            data,
        )
        for client, data in results.items()
    }


def _lengths(data: bytes, *, blocks: tuple[int, ...], slots: int, key: RunKey) -> LayoutResult:
    result = layout_result_from_bytes(data, blocks=frozenset(blocks), slots=slots, key=key)
    if result.preparation or result.marks is not None:
        raise InvalidInput("preparation, marks: are due once the rows are prepared")
    if (result.lengths is not None) != bool(blocks):
        raise InvalidInput("lengths: must be there if and only if another party holds the same samples")
    if result.lengths is not None:
        check_fresh(result.lengths, blocks, "lengths")
    return result


def length_tasks(results: Mapping[ClientId, LayoutResult], record: bytes) -> dict[ClientId, bytes]:
    """For each party the sums over all holders of its samples; `record` is that of the phase before."""
    sums = summed([result.lengths for result in results.values() if result.lengths is not None])
    return {
        client: length_sums_to_bytes(None if result.lengths is None else sums.on(result.lengths.blocks), record)
        for client, result in results.items()
    }
