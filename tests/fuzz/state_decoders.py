"""The vectors by block in the servers' states, with a valid one of each kind."""

import numpy as np

from fenchel.v1 import corrective_pb2, hyfdca_pb2
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.wire.block_states import (
    block_states_from_proto,
    block_states_to_proto,
    block_sum_from_proto,
    block_sum_to_proto,
)
from fuzz.decoder import Decoder, parsed
from fuzz.wire_decoders import BITS, FORMAT
from support.tagged import encrypted as made


def state_decoders() -> list[Decoder]:
    in_clear, cipher = RunKey.in_clear(BITS), PlainCipher(BITS)
    plain = made(cipher, np.linspace(-1.0, 1.0, 2 * cipher.slots), FORMAT)
    states, sums = block_states_to_proto({2: plain}), block_sum_to_proto(BlockSum.of(BlockVector((2, 5), plain)))
    return [
        Decoder(
            "block_states.block_states_from_proto",
            lambda data: block_states_from_proto(parsed(hyfdca_pb2.HyfdcaSnapshot, data).norms, in_clear),
            (hyfdca_pb2.HyfdcaSnapshot(norms=states).SerializeToString(),),
            (block_states_from_proto,),
            hyfdca_pb2.HyfdcaSnapshot,
        ),
        Decoder(
            "block_states.block_sum_from_proto",
            lambda data: block_sum_from_proto(parsed(corrective_pb2.CorrectiveSnapshot, data).norms, in_clear, "norms"),
            (corrective_pb2.CorrectiveSnapshot(norms=sums).SerializeToString(),),
            (block_sum_from_proto,),
            corrective_pb2.CorrectiveSnapshot,
        ),
    ]
