"""What a server half asks of the clients: one phase, one task for each client that takes part."""

from collections.abc import Mapping
from dataclasses import dataclass

from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """A phase to fan out; `tasks` holds the serialised body for each client that takes part."""

    phase: str
    tasks: Mapping[ClientId, bytes]
