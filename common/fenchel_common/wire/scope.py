"""The scope of one client's messages, and the vectors in them.

Vectors by sample are dual variables and inner products; vectors by feature are models and contributions to them. Both
consist of whole blocks. A vector of numbers is short and has no blocks.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire.blocks import block_vector_from_proto, block_vector_to_proto
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto

MAXIMUM_NUMBERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Scope:
    """The keys and blocks against which every message to or from one client is checked.

    `key` encrypts vectors by sample, `feature_key` vectors by feature and vectors of numbers. `blocks` and
    `feature_blocks` are the sizes of the blocks of samples and of features that the client holds, by id, of at most
    `slots` samples and `feature_slots` features each. Dual variables must be in `alpha_format`, which depends on the
    loss, inner products with points of a corrective run in one of `product_formats`.
    """

    key: RunKey
    feature_key: RunKey
    slots: int
    feature_slots: int
    blocks: Mapping[int, int]
    feature_blocks: Mapping[int, int]
    alpha_format: VectorFormat = ALPHA_FORMAT
    product_formats: tuple[VectorFormat, ...] = ()

    @classmethod
    def of_client(
        cls,
        layout: ClientLayout,
        *,
        key: RunKey,
        privacy: Privacy,
        alpha_format: VectorFormat = ALPHA_FORMAT,
        product_formats: tuple[VectorFormat, ...] = (),
    ) -> "Scope":
        """The scope of a party, from its own layout."""
        return cls(
            key,
            key.by_feature(privacy),
            layout.slots,
            layout.feature_slots,
            dict(zip(layout.block_ids.tolist(), layout.block_sizes.tolist(), strict=True)),
            {block: len(positions) for block, positions in layout.feature_blocks.items()},
            alpha_format,
            product_formats,
        )

    @classmethod
    def of_federation(
        cls,
        layout: FederationLayout,
        client: ClientId,
        *,
        key: RunKey,
        privacy: Privacy,
        alpha_format: VectorFormat = ALPHA_FORMAT,
        product_formats: tuple[VectorFormat, ...] = (),
    ) -> "Scope":
        """The scope of a client, from the server's layout."""
        return cls(
            key,
            key.by_feature(privacy),
            layout.slots,
            layout.feature_slots,
            layout.sample_index.of(client),
            layout.feature_index.of(client),
            alpha_format,
            product_formats,
        )

    @classmethod
    def of_every_client(
        cls,
        layout: FederationLayout,
        *,
        key: RunKey,
        privacy: Privacy,
        alpha_format: VectorFormat = ALPHA_FORMAT,
        product_formats: tuple[VectorFormat, ...] = (),
    ) -> dict[ClientId, "Scope"]:
        """From the server's view."""
        return {
            client: cls.of_federation(
                layout,
                client,
                key=key,
                privacy=privacy,
                alpha_format=alpha_format,
                product_formats=product_formats,
            )
            for client in layout.clients
        }


def optional_vector_to_proto(vector: BlockVector | None) -> hyfdca_pb2.BlockVector | None:
    return None if vector is None else block_vector_to_proto(vector)


def sample_vector_from_proto(
    message: hyfdca_pb2.BlockVector, scope: Scope, formats: Collection[VectorFormat], field: str
) -> BlockVector:
    return block_vector_from_proto(
        message, allowed=scope.blocks, slots=scope.slots, key=scope.key, formats=formats, field=field
    )


def feature_vector_from_proto(message: hyfdca_pb2.BlockVector, scope: Scope, field: str) -> BlockVector:
    return block_vector_from_proto(
        message,
        allowed=scope.feature_blocks,
        slots=scope.feature_slots,
        key=scope.feature_key,
        formats=(PRODUCT_FORMAT,),
        field=field,
    )


def numbers_to_proto(numbers: Vector | None) -> vectors_pb2.Vector | None:
    return None if numbers is None else vector_to_proto(numbers)


def numbers_from_proto(message: vectors_pb2.Vector, scope: Scope, field: str) -> Vector:
    vector = vector_from_proto(message, scope.feature_key)
    if vector.format != PRODUCT_FORMAT or not 1 <= vector.length <= MAXIMUM_NUMBERS:
        raise InvalidInput(f"{field}: must be 1 to {MAXIMUM_NUMBERS} values in the format of inner products")
    return vector


def finite_number(value: float, field: str) -> float:
    if not math.isfinite(value):
        raise InvalidInput(f"{field}: is NaN or infinite")
    return value
