"""Every decoder of bytes from outside."""

import functools

from fuzz.alignment_decoders import alignment_decoders
from fuzz.averaging_decoders import averaging_decoders
from fuzz.decoder import Decoder
from fuzz.file_decoders import file_decoders
from fuzz.hyfdca_decoders import hyfdca_decoders
from fuzz.record_decoders import record_decoders
from fuzz.scoring_decoders import scoring_decoders
from fuzz.state_decoders import state_decoders
from fuzz.stream_decoders import stream_decoders
from fuzz.wire_decoders import label_decoders, setup_decoders, vector_decoders


@functools.lru_cache(maxsize=1)
def decoders() -> dict[str, Decoder]:
    """By name."""
    made = [
        *vector_decoders(),
        *alignment_decoders(),
        *label_decoders(),
        *record_decoders(),
        *setup_decoders(),
        *averaging_decoders(),
        *hyfdca_decoders(),
        *scoring_decoders(),
        *file_decoders(),
        *state_decoders(),
        *stream_decoders(),
    ]
    named = {decoder.name: decoder for decoder in made}
    assert len(named) == len(made), "two decoders have one name"
    return named
