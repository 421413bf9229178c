"""The check whether a client's answer on the averaging rails is what is due by the records."""

from collections.abc import Mapping
from dataclasses import dataclass

from fenchel_common.algorithms.averaging.rails import Positions, Result, Sums, chosen_blocks
from fenchel_common.blocks import check_fresh
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.averaging import Scope, result_from_bytes
from fenchel_server.algorithms.answers import check_blocks, check_fresh_numbers, check_presence


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The content of an answer.

    Attributes
    ----------
    numbers
        The names of the reported numbers.
    trains
        Whether the client returns vectors; those that are summed are on `coordinates`, if these are given.
    checkpoint, products
        The blocks of coordinates that the client restates, and of samples of which it gives inner products.
    figures
        Whether the client gives its figures, encrypted.
    measurement
        Whether the client tells the measurement of all samples.
    """

    numbers: tuple[str, ...] = ()
    trains: bool = False
    coordinates: Positions | None = None
    checkpoint: tuple[int, ...] = ()
    products: tuple[int, ...] = ()
    figures: bool = False
    measurement: bool = False


def read_result(data: bytes, *, expected: Expected, scope: Scope) -> Result:
    """The result of a task.

    Raises `InvalidInput` unless the result has exactly the expected content, with fresh vectors.
    """
    names = scope.vectors
    result = result_from_bytes(data, scope, coordinates=expected.coordinates)
    if result.diverged:
        return result
    if set(result.reported) != set(expected.numbers):
        raise InvalidInput(f"reported: exactly these numbers are due: {', '.join(expected.numbers) or 'none'}")
    whole = tuple(scope.coordinate_blocks)
    chosen = whole if expected.coordinates is None else tuple(chosen_blocks(expected.coordinates, scope.slots))
    returned = {name: chosen if name in names.summed else whole for name in names.returned}
    _check_vectors("vectors", result.vectors, returned if expected.trains else {})
    restated = names.state if expected.checkpoint else ()
    _check_vectors("checkpoint", result.checkpoint, dict.fromkeys(restated, expected.checkpoint))
    check_blocks(result.products, expected.products, "products")
    check_presence(result.figures, expected.figures, "figures")
    if result.figures is not None:
        check_fresh_numbers(result.figures, "figures")
    check_presence(result.measurement, expected.measurement, "measurement")
    return result


def _check_vectors(field: str, given: Sums, due: Mapping[str, tuple[int, ...]]) -> None:
    if given.keys() != due.keys():
        raise InvalidInput(f"{field}: must have exactly the vectors that the task asks for")
    for name, vector in given.items():
        check_fresh(vector, due[name], f"{field}.{name}")
