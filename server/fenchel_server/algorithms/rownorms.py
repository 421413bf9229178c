"""The squared norms of shared rows, which the parties give before the first round."""

from collections.abc import Mapping

from fenchel_common.blocks import BlockVector, check_fresh
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import FenchelError, InvalidInput, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.scope import Scope


def read_row_norms(
    given: Mapping[ClientId, bytes], *, layout: FederationLayout, key: RunKey, privacy: Privacy
) -> dict[ClientId, BlockVector]:
    """Each client's encrypted squared row norms of its shared blocks."""
    norms = {}
    for client in layout.clients:
        blocks = layout.sample_index.shared_of(client)
        if blocks and client not in given:
            raise InvalidInput(f"preparations: the row norms of {client} are missing")
        if blocks:
            scope = Scope.of_federation(layout, client, key=key, privacy=privacy)
            norms[client] = _row_norms(client, given[client], scope, blocks)
    return norms


def _row_norms(client: ClientId, data: bytes, scope: Scope, blocks: tuple[int, ...]) -> BlockVector:
    try:
        norms = wire.product_result_from_bytes(data, scope).products
        check_fresh(norms, blocks, "preparation")
    except FenchelError as error:
        raise ResultRejected(client, str(error)) from None
    return norms
