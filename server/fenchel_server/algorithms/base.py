"""The two ways to make the server half of an algorithm: fresh, and from a snapshot."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_server.contract import AlgorithmServer, ServerState


class ServerHalf(Protocol):
    """Makes the server half of one algorithm.

    `settings` must be those of this algorithm, `layout` and `key` those of the run, the same in both methods.
    """

    def __call__(
        self,
        settings: Any,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> AlgorithmServer:
        """The algorithm before its first round; called at the end of the set-up.

        Parameters
        ----------
        preparations
            The bytes that each client half's `preparation` gave; they came with the client's answer to its layout.
        records
            The records of the set-up; in the phase of the last one all clients gave their preparations.

        Raises
        ------
        ResultRejected
            If the preparation of a client is malformed.
        InvalidInput
            If settings and layout do not fit, or if a preparation is missing.
        """
        ...

    def restore(
        self, snapshot: ServerState, *, settings: Any, layout: FederationLayout, key: RunKey
    ) -> AlgorithmServer:
        """The algorithm in the state of `snapshot`, which `AlgorithmServer.snapshot` gave in the same run.

        Called when a server begins an attempt at a run after its set-up. Raises `StateDamaged` if the snapshot does
        not fit the layout.
        """
        ...
