"""The comparison of labels at the server, which adds the parties' encrypted marks of labels and reads their verdicts.

The server itself compares nothing. `fenchel_client.labels` says what a mark is and what a party tells of the sums.
"""

from collections.abc import Mapping
from functools import partial

from fenchel_common.blocks import check_fresh, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput, LabelsDiffer
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.setup import LayoutResult
from fenchel_common.wire.labels import label_sums_to_bytes, labels_compared_from_bytes, layout_result_from_bytes
from fenchel_server.rejection import read_or_reject


def read_layout_results(
    results: Mapping[ClientId, bytes], *, layout: FederationLayout, key: RunKey
) -> dict[ClientId, LayoutResult]:
    """Each party's answer to its layout.

    An answer has marks if and only if another party has labels of some of the same samples. Raises `ResultRejected`.
    """
    return {
        client: read_or_reject(
            client,
            partial(_layout_result, blocks=layout.label_index.shared_of(client), slots=layout.slots, key=key),
            data,
        )
        for client, data in results.items()
    }


def _layout_result(data: bytes, *, blocks: tuple[int, ...], slots: int, key: RunKey) -> LayoutResult:
    result = layout_result_from_bytes(data, blocks=frozenset(blocks), slots=slots, key=key)
    if (result.marks is not None) != bool(blocks):
        raise InvalidInput("marks: must be there if and only if another party has labels of the same samples")
    if result.marks is not None:
        check_fresh(result.marks, blocks, "marks")
    return result


def label_tasks(results: Mapping[ClientId, LayoutResult], record: bytes) -> dict[ClientId, bytes]:
    """For each party that gave marks, the sums over all label holders of its blocks; empty if no party gave marks.

    `record` is the record of the phase in which the marks were given.
    """
    given = {client: result.marks for client, result in results.items() if result.marks is not None}
    sums = summed(given.values())
    tasks = {}
    for client, marks in given.items():
        own = sums.on(marks.blocks)
        assert own is not None, "marks have at least one block"
        tasks[client] = label_sums_to_bytes(own, record)
    return tasks


def check_labels(results: Mapping[ClientId, bytes]) -> None:
    """Raises `LabelsDiffer` if a party found that another party's labels differ from its own."""
    differing = [client for client, data in results.items() if read_or_reject(client, labels_compared_from_bytes, data)]
    if differing:
        raise LabelsDiffer(differing)
