"""The family of scoring runs, which train nothing: a run of one round and one phase.

Every holder of an asked row gives its part of the row's score, x_k·w_k, but the asking party, which keeps its own. The
server adds the parts up, and hands the sums to the asking party alone when the run is over.

Parts are masked. The mask between two parties cancels only if both parts are in the sum. The asking party's is not: it
adds its own, with its masks, to the sum that it gets. So nobody else can take the masks off, not even a server that
colludes with all other holders but one.
"""

from typing import Any, Final

from fenchel_common.algorithms.family import Carried, Exchange, Family, Messages

SCORES: Final = "scores"
"""The phase, and the field of its result."""

MESSAGES: Final = Messages(
    phases={SCORES: Exchange("ScoringTask", "ScoringResult", Carried(), Carried(by_sample=1))},
    preparation=None,
    state="ScoringSums",
    state_carries=Carried(by_sample=1),
    choices={},
)

SCORING: Final[Family[Any]] = Family(name="scoring", messages=lambda _: MESSAGES, ciphertexts=lambda *_: 0)
