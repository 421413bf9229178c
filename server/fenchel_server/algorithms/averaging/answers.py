"""The check whether a client's answer on the averaging rails is what is due by the records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.averaging.choices import Numbers
from fenchel_common.algorithms.averaging.rails import Measurement, Positions, Result, Sums, chosen_blocks
from fenchel_common.blocks import check_fresh
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.averaging import Scope, result_from_bytes
from fenchel_common.wire.parsing import Body
from fenchel_server.algorithms.answers import check_blocks, check_fresh_numbers, check_presence
from fenchel_server.algorithms.intake import PhaseSums

PRODUCTS: Final = "products"
FIGURES: Final = "figures"


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


def read_result(data: Body, *, expected: Expected, scope: Scope) -> Result:
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


@dataclass(frozen=True, slots=True)
class AveragingAnswer:
    """What is kept of a result beside the vectors that are added: its numbers, and the vectors for the client alone.

    `trained` says whether the result has vectors.
    """

    reported: Numbers
    trained: bool
    kept: Sums
    diverged: bool
    measurement: Measurement | None

    @classmethod
    def of(cls, result: Result, kept: Sequence[str]) -> "AveragingAnswer":
        """The parts of a result that are kept; `kept` names the vectors that the server keeps."""
        vectors = {name: result.vectors[name] for name in kept if name in result.vectors}
        return cls(result.reported, bool(result.vectors), vectors, result.diverged, result.measurement)


def vectors_to_add(result: Result, summed: Sequence[str]) -> PhaseSums:
    """The vectors of a result that are added; `summed` names those of the algorithm."""
    if result.diverged:
        return PhaseSums()
    vectors = {vector_field(name): result.vectors[name] for name in summed if name in result.vectors}
    restated = {checkpoint_field(name): vector for name, vector in result.checkpoint.items()}
    return PhaseSums.of({**vectors, **restated, PRODUCTS: result.products}, {FIGURES: result.figures})


def vector_field(name: str) -> str:
    """The name of the sums of one of the algorithm's vectors."""
    return f"vectors.{name}"


def checkpoint_field(name: str) -> str:
    """The name of the restated state of a vector."""
    return f"checkpoint.{name}"


def _check_vectors(field: str, given: Sums, due: Mapping[str, tuple[int, ...]]) -> None:
    if given.keys() != due.keys():
        raise InvalidInput(f"{field}: must have exactly the vectors that the task asks for")
    for name, vector in given.items():
        check_fresh(vector, due[name], f"{field}.{name}")
