"""How the server half of an algorithm is made."""

from collections.abc import Mapping
from typing import Any, Protocol

from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_server.contract import AlgorithmServer


class ServerHalf(Protocol):
    """How a server half is made. Each takes the settings of its own algorithm, with which the tables pair it."""

    def __call__(
        self,
        settings: Any,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
    ) -> AlgorithmServer:
        """The algorithm before its first round; the clients' `preparations` came with their answers to the layout."""
        ...

    def restore(self, snapshot: bytes, *, settings: Any, layout: FederationLayout, key: RunKey) -> AlgorithmServer:
        """The algorithm as it was when the snapshot was taken."""
        ...
