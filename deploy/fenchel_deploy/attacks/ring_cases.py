"""The attacks on the ring of the alignment, each with its score and its claim."""

from collections.abc import Iterator, Sequence
from typing import Final

from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import EVERY_LEVEL, Attack, Claims, Verdict
from fenchel_deploy.attacks.protocol_cases import DICTIONARY
from fenchel_deploy.attacks.recorded import Scenario
from fenchel_deploy.attacks.rings import OpenRing, dictionary_slipped_in, exchanged_positions, repeated_lists
from fenchel_deploy.attacks.scoring import match_rate

ROGUE: Final = "server that leaves the protocol"
SAFE_AT_ANY_LEVEL: Final[Claims] = {EVERY_LEVEL: "safe"}

SET_UP_ONLY: Final = Scenario(Privacy.SEALED, h=1, alignment="ring", rounds=0)


def _play_slipped_list(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    ring = OpenRing(bench, SET_UP_ONLY, "ring-slipped-in")
    victim = ring.clients[-1]
    found = dictionary_slipped_in(ring, victim, DICTIONARY)
    note = f"{len(found)} ids of a party, {len(DICTIONARY)} in the dictionary"
    yield Verdict.of_rate(match_rate(found, ring.ids[victim]), level=EVERY_LEVEL, setting="ring", note=note)


def _play_other_lists(bench: Bench, _levels: Sequence[Privacy]) -> Iterator[Verdict]:
    repeated = repeated_lists(OpenRing(bench, SET_UP_ONLY, "ring-repeated"))
    yield Verdict.of_attempts(repeated, level=EVERY_LEVEL, setting="repeated")
    exchanged = exchanged_positions(OpenRing(bench, SET_UP_ONLY, "ring-exchanged"))
    yield Verdict.of_attempts(exchanged, level=EVERY_LEVEL, setting="exchanged positions")


RING_ATTACKS: Final = (
    Attack(
        "dictionary-slipped-in",
        "sends a list of all ids round the ring",
        ROGUE,
        {"ring": SAFE_AT_ANY_LEVEL},
        _play_slipped_list,
        unchecked=("ring",),
    ),
    Attack(
        "ring-lists",
        "hands a party lists of the ring again, or in the steps of other lists",
        ROGUE,
        {"repeated": SAFE_AT_ANY_LEVEL, "exchanged positions": SAFE_AT_ANY_LEVEL},
        _play_other_lists,
        unchecked=("repeated", "exchanged positions"),
    ),
)
