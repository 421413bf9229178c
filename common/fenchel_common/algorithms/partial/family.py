"""The family of corrective HyFDCA while some of the parties take part."""

from typing import Final

from fenchel_common.algorithms.corrective.pairs import MAX_BATCH, MESSAGES
from fenchel_common.algorithms.dual import DualSettings
from fenchel_common.algorithms.family import Family, Messages
from fenchel_common.clientlayout import ClientLayout

NUMBER_CIPHERTEXTS: Final = 9
"""Ciphertexts of a party's vectors of numbers in a round."""


def _messages(_settings: DualSettings) -> Messages:
    return MESSAGES


def _ciphertexts(settings: DualSettings, layout: ClientLayout) -> int:
    """Of a pair of points: products and new dual variables by sample, models by feature, and of the released model."""
    solved = len(layout.block_ids) if layout.party in layout.label_holders else 0
    by_sample = 2 * int(layout.shared.sum()) + solved + len(layout.reports)
    by_feature = 3 * len(layout.feature_blocks)
    return by_sample + settings.privacy.encrypts_features * (by_feature + NUMBER_CIPHERTEXTS) * MAX_BATCH // 2


def _row_leak(_settings: DualSettings, _changes: int | None, _width: int) -> str:
    return "corrective steps show it sums of rows, and from round to round single rows enter and leave these sums"


PARTIAL: Final[Family[DualSettings]] = Family(
    name="partial",
    messages=_messages,
    ciphertexts=_ciphertexts,
    row_leak=_row_leak,
)
