"""The moments of features and labels at the server, which adds up encrypted counts, sums and sums of squares."""

from collections.abc import Mapping
from functools import partial

from fenchel_common.blocks import check_fresh, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import total
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.moments import MOMENT_FIELDS
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import LayoutResult, MomentSums
from fenchel_common.wire.labels import layout_result_from_bytes, moment_sums_to_bytes
from fenchel_server.rejection import read_or_reject


def read_moments(
    results: Mapping[ClientId, bytes], *, config: RunConfig, layout: FederationLayout, key: RunKey
) -> dict[ClientId, LayoutResult]:
    """Each party's answer to its layout in a run that prepares features or labels.

    In a run with `[features]`, an answer has moments of features if and only if another party holds some of the same
    ones; in a run that learns of labels, it has their moments if and only if the party has labels. It has neither
    preparation nor marks. Raises `ResultRejected`.
    """
    rules = config.algorithm_settings().label_rules
    return {
        client: read_or_reject(
            client,
            partial(
                _moments,
                blocks=() if config.features is None else layout.feature_index.shared_of(client),
                problems=rules.problems if rules.learns and client in layout.label_holders else 0,
                slots=layout.feature_slots,
                key=key,
            ),
            data,
        )
        for client, data in results.items()
    }


def _moments(data: bytes, *, blocks: tuple[int, ...], problems: int, slots: int, key: RunKey) -> LayoutResult:
    result = layout_result_from_bytes(data, blocks=(), slots=slots, key=key, feature_blocks=frozenset(blocks))
    if result.preparation or result.marks is not None:
        raise InvalidInput("preparation, marks: are due once the features are prepared")
    if len(result.moments) != (MOMENT_FIELDS if blocks else 0):
        raise InvalidInput("moments: must be there if and only if another party holds the same features")
    for vector in result.moments:
        check_fresh(vector, blocks, "moments")
    if (0 if result.label_moments is None else result.label_moments.length) != MOMENT_FIELDS * problems:
        raise InvalidInput(
            "label_moments: must be those of each problem if the party has labels and the run learns of them, else none"
        )
    if result.label_moments is not None and result.label_moments.terms != 1:
        raise InvalidInput("label_moments: must be freshly encrypted, not a sum")
    return result


def moment_tasks(results: Mapping[ClientId, LayoutResult], record: bytes) -> dict[ClientId, bytes]:
    """For each party the sums over all holders of its features, and if it has labels over all parties with labels.

    `record` is that of the phase `layout`.
    """
    given = [result.moments for result in results.values() if result.moments]
    sums = [summed(vectors) for vectors in zip(*given, strict=True)]
    of_labels = [result.label_moments for result in results.values() if result.label_moments is not None]
    all_labels = total(of_labels) if of_labels else None
    tasks = {}
    for client, result in results.items():
        own = [added.on(vector.blocks) for vector, added in zip(result.moments, sums, strict=False)]
        features = tuple(one for one in own if one is not None)
        labels = None if result.label_moments is None else all_labels
        tasks[client] = moment_sums_to_bytes(MomentSums(features, labels, record))
    return tasks
