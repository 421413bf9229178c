"""The squared norms of shared rows, which the parties give before the first round."""

from collections.abc import Mapping
from functools import partial

from fenchel_common.blocks import BlockSum, BlockVector, check_fresh, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.scope import Scope
from fenchel_server.rejection import read_or_reject


def summed_row_norms(
    preparations: Mapping[ClientId, bytes], *, layout: FederationLayout, key: RunKey, privacy: Privacy
) -> BlockSum:
    """The encrypted squared row norms of each shared block, summed over the clients that hold it.

    Raises
    ------
    ResultRejected
        The preparation of a client is malformed, or not on the client's shared blocks.
    """
    norms = []
    for client in layout.clients:
        blocks = layout.sample_index.shared_of(client)
        if blocks and client not in preparations:
            raise InvalidInput(f"preparations: the row norms of {client} are missing")
        if blocks:
            scope = Scope.of_federation(layout, client, key=key, privacy=privacy)
            read = partial(_row_norms, scope=scope, blocks=blocks)
            norms.append(read_or_reject(client, read, preparations[client]))
    return summed(norms)


def _row_norms(data: bytes, *, scope: Scope, blocks: tuple[int, ...]) -> BlockVector:
    norms = wire.product_result_from_bytes(data, scope).products
    check_fresh(norms, blocks, "preparation")
    return norms
