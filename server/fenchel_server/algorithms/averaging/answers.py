"""The check whether a client's answer on the averaging rails fits its task."""

from collections.abc import Mapping

from fenchel_common.algorithms.averaging.rails import SURVEY, Result, Task, chosen_blocks
from fenchel_common.blocks import BlockVector, check_fresh
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.averaging import Scope, result_from_bytes
from fenchel_server.algorithms.answers import check_blocks, check_presence


def read_result(data: bytes, *, task: Task, phase: str, scope: Scope) -> Result:
    """The result of a task.

    Raises `InvalidInput` unless the result has exactly the content that the task asks for, with fresh vectors.
    """
    names, work = scope.vectors, task.work
    coordinates = None if work is None else work.coordinates
    result = result_from_bytes(data, scope, coordinates=coordinates)
    if result.diverged:
        return result
    due = names.surveyed if phase == SURVEY else names.reported if work is not None else ()
    if set(result.reported) != set(due):
        raise InvalidInput(f"reported: exactly these numbers are due: {', '.join(due) or 'none'}")
    whole = tuple(scope.coordinate_blocks)
    chosen = whole if coordinates is None else tuple(chosen_blocks(coordinates, scope.slots))
    returned = {name: chosen if name in names.summed else whole for name in names.returned}
    _check_vectors("vectors", result.vectors, returned if work is not None else {})
    restated = names.state if task.checkpoint_blocks else ()
    _check_vectors("checkpoint", result.checkpoint, dict.fromkeys(restated, task.checkpoint_blocks))
    check_blocks(result.products, task.product_blocks, "products")
    check_presence(result.measurement, bool(task.report_blocks or task.norm_blocks), "measurement")
    samples = sum(scope.samples[block] for block in task.report_blocks)
    if result.measurement is not None and result.measurement.samples != samples:
        raise InvalidInput(f"measurement.samples: must be the {samples} samples of the task")
    return result


def _check_vectors(field: str, given: Mapping[str, BlockVector], due: Mapping[str, tuple[int, ...]]) -> None:
    if given.keys() != due.keys():
        raise InvalidInput(f"{field}: must have exactly the vectors that the task asks for")
    for name, vector in given.items():
        check_fresh(vector, due[name], f"{field}.{name}")
