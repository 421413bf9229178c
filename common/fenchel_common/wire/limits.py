"""The most bytes of the task and of the result of each phase.

Before the layout, the limits follow from the roster and from the most samples and features that any party may hold.
From the layout on, they follow from the party's own blocks of samples and of features. A vector has one ciphertext for
each block of features, and for each block of samples as many as its values take in slots of 64 bits. The receiver
compares the announced size with the limit before it stores a single byte. No body is longer than `MAX_BODY_BYTES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.averaging.family import LOG_ENTRIES
from fenchel_common.algorithms.dual import MAX_CLASSES
from fenchel_common.algorithms.family import Carried
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.blocks import piece_count
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.ids import ClientId
from fenchel_common.layout import (
    MAX_FEATURES,
    MAX_NAME_CHARS,
    MAX_PARTY_SAMPLES,
    MAX_SAMPLES,
    FederationLayout,
)
from fenchel_common.layoutroot import LEAF_BYTES
from fenchel_common.runconfig import MAX_TOML_BYTES
from fenchel_common.setup import (
    FINISH,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    MAX_INTRODUCTION_BYTES,
    MAX_WRAPPED_BYTES,
    NAMES,
    VOCABULARY,
)
from fenchel_common.wire.alignment import PSEUDONYM_BYTES, phase_step
from fenchel_common.wire.arrays import NUMBER_BYTES
from fenchel_common.wire.catalogue import FIRST_ALIGNMENT, LATER_ALIGNMENT, messages_of
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.groupkeys import MAX_SEALED_KEY_BYTES
from fenchel_common.wire.names import MAX_SEALED_NAMES_BYTES
from fenchel_common.wire.pieces import (
    ELEMENT_BYTES,
    MAX_PIECES,
    PIECE_FRAME_BYTES,
    WORK_ELEMENTS,
    is_blinding_phase,
)
from fenchel_common.wire.vocabulary import MAX_SEALED_VOCABULARY_BYTES

FRAME_BYTES: Final = 4096
"""Bytes of a message that do not grow: tags, lengths, flags, a few numbers and names, and a result's envelope."""
NUMBERS_BYTES: Final = 128 * 1024
"""The most bytes of a vector of numbers, which has at most `MAXIMUM_NUMBERS`."""
ENTRY_BYTES: Final = 64
"""The most bytes of a block in all lists of ids, ranges and divisors of a message together."""
MAX_KEY_BITS: Final = 3072
"""The longest key that a run can have."""
RECORDS_A_ROUND: Final = 8
"""The most records of a round: its beginning, and each of its phases."""
RECORD_BYTES: Final = 1024
RECORD_PARTY_BYTES: Final = 128
"""The most bytes of a record without its parties, and those of each party, with what the server chose for it."""
_CUT_BYTES: Final = 3 * NUMBER_BYTES
_COHORT_BYTES: Final = 64
_SEALED_BYTES: Final = 2 * MAX_SEALED_KEY_BYTES
"""The most bytes of a sealed key of a group without the list of its holders."""


@dataclass(frozen=True, slots=True)
class PhaseLimits:
    """The most bytes of a task and of a result."""

    task: int
    result: int


@dataclass(frozen=True, slots=True)
class Extent:
    """The numbers of features and blocks that one party holds, and of parties in the federation.

    `block_bytes` is the size of a ciphertext, `pieces` the most ciphertexts of a block of samples.
    """

    features: int
    blocks: int
    feature_blocks: int
    block_bytes: int
    parties: int
    pieces: int = 1

    @classmethod
    def of_client(cls, layout: ClientLayout, *, key_bits: int) -> "Extent":
        """The extent of a party, from its own layout."""
        features = sum(len(positions) for positions in layout.feature_blocks.values())
        blocks, feature_blocks = len(layout.block_ids), len(layout.feature_blocks)
        pieces = piece_count(layout.slots, layout.feature_slots)
        return cls(features, blocks, feature_blocks, _block_bytes(key_bits), len(layout.clients), pieces)


def extents_of(layout: FederationLayout, *, key_bits: int) -> dict[ClientId, Extent]:
    """The extent of each party, from the server's layout."""
    return {
        client: Extent(
            len(layout.client_features[client]),
            len(layout.sample_index.of(client)),
            len(layout.feature_index.of(client)),
            _block_bytes(key_bits),
            len(layout.clients),
            piece_count(layout.slots, layout.feature_slots),
        )
        for client in layout.clients
    }


def setup_limits(phase: str, *, parties: int) -> PhaseLimits:
    """The limits of a phase before the layout in a federation of `parties` parties; `InvalidInput` for other phases."""
    if phase in _SETUP:
        return _limits(*_SETUP[phase](parties))
    if is_blinding_phase(phase):
        return _limits(_PIECES, _PIECES)
    phase_step(phase)
    return _limits(*_SETUP[LATER_ALIGNMENT](parties))


_ELEMENTS: Final = ELEMENT_BYTES * MAX_PARTY_SAMPLES
_PIECES: Final = ELEMENT_BYTES * WORK_ELEMENTS + PIECE_FRAME_BYTES * MAX_PIECES
_WRAPPED: Final = MAX_WRAPPED_BYTES + FRAME_BYTES
_SETUP: Final[Mapping[str, Callable[[int], tuple[int, int]]]] = {
    INTRODUCE: lambda _: (MAX_TOML_BYTES, MAX_INTRODUCTION_BYTES),
    KEY_MAKE: lambda parties: (parties * MAX_INTRODUCTION_BYTES, parties * _WRAPPED),
    KEY_TAKE: lambda parties: (_WRAPPED + parties * MAX_INTRODUCTION_BYTES, 0),
    VOCABULARY: lambda _: (0, MAX_SEALED_VOCABULARY_BYTES),
    FIRST_ALIGNMENT: lambda parties: (
        parties * (MAX_SEALED_VOCABULARY_BYTES + FRAME_BYTES),
        PSEUDONYM_BYTES * MAX_FEATURES + _ELEMENTS + MAX_SEALED_NAMES_BYTES,
    ),
    LATER_ALIGNMENT: lambda _: (_ELEMENTS, _ELEMENTS),
    NAMES: lambda parties: (parties * (MAX_SEALED_NAMES_BYTES + FRAME_BYTES), 0),
}
"""For each phase a function from the number of parties to the most bytes of a task and of a result."""


def layout_task_limit(*, samples: int, features: int, parties: int, overlapping: bool) -> int:
    """The limit of the layout for a party that holds `samples` samples and `features` features.

    Every sample and feature may be a block of its own. If parties give the same features of the same samples
    (`overlapping`), there is a list of features for each set of other holders.
    """
    listed = NUMBER_BYTES * (4 * samples + 3 * features) + samples
    groups = 2 ** (parties - 1)  # the sets of other holders
    cuts = min(samples, groups) if overlapping else 0
    cohorts = (min(samples, groups) + min(features, groups)) * (
        _COHORT_BYTES + _SEALED_BYTES + 2 * NUMBER_BYTES * parties
    )
    leaves = LEAF_BYTES * min(2 ** (parties + 1), MAX_SAMPLES + MAX_FEATURES)
    named = parties * (MAX_NAME_CHARS + 1 + 2 * NUMBER_BYTES) + cohorts + leaves
    return _limits(listed + cuts * (NUMBER_BYTES * features + _CUT_BYTES) + NUMBER_BYTES * samples + named, 0).task


def group_keys_limit(layout: ClientLayout) -> int:
    """The limit of a party's sealed keys of groups."""
    led = (holders for holders in layout.groups if holders[0] == layout.party)
    sealed = sum((len(holders) - 1) * (_SEALED_BYTES + NUMBER_BYTES * len(holders)) for holders in led)
    return _limits(0, sealed).result


def round_limits(phase: str, extent: Extent, settings: AlgorithmSettings, *, round_id: int = 0) -> PhaseLimits:
    """The limits of a phase of a round, of `finish` and of `labels`; of `layout` the limit of the result only.

    Tasks may bring all records up to their round.
    """
    messages = messages_of(phase, settings)
    task, result = messages.task_carries, messages.result_carries
    weights = 8 * extent.features * result.width if phase == FINISH else 0
    records = _records(round_id, extent.parties, NUMBER_BYTES * extent.features * task.width)
    return _limits(_carried(task, extent) + records, weights + _carried(result, extent))


def finish_task_limit(*, features: int, parties: int, round_id: int) -> int:
    """The limit of `finish` for a party that holds `features` features and no longer knows the terms of the run."""
    extent = Extent(features, 0, feature_blocks=features, block_bytes=_block_bytes(MAX_KEY_BITS), parties=parties)
    records = _records(round_id, parties, NUMBER_BYTES * features)
    return _limits(_carried(Carried(by_feature=max(LOG_ENTRIES, MAX_CLASSES)), extent) + records, 0).task


def _records(round_id: int, parties: int, chosen: int) -> int:
    """The most bytes of all records up to a round; `chosen` is the size of a list of all coordinates."""
    return (round_id + 1) * (RECORDS_A_ROUND * (RECORD_BYTES + parties * RECORD_PARTY_BYTES) + chosen)


def _carried(carried: Carried, extent: Extent) -> int:
    block = extent.block_bytes + NUMBER_BYTES
    samples = extent.blocks * (ENTRY_BYTES + carried.by_sample * extent.pieces * block)
    features = carried.width * extent.feature_blocks * (ENTRY_BYTES + carried.by_feature * block)
    return samples + features + carried.numbers * NUMBERS_BYTES


def _block_bytes(key_bits: int) -> int:
    """A ciphertext is twice as long as the key. The same values in clear take less."""
    return 2 * key_bits // 8


def _limits(task: int, result: int) -> PhaseLimits:
    return PhaseLimits(min(task + FRAME_BYTES, MAX_BODY_BYTES), min(result + FRAME_BYTES, MAX_BODY_BYTES))
