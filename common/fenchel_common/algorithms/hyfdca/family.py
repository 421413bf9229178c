"""The family of HyFDCA with the local steps of its paper."""

from typing import Final

from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PREPARATION, PRIMAL
from fenchel_common.algorithms.family import Carried, Exchange, Family, Messages
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC
from fenchel_common.algorithms.hyfdca.pace import HyfdcaChoices
from fenchel_common.algorithms.hyfdca.row_leak import fewest_changes, row_leak_of
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.records import ROUND

_PRIMAL = Exchange(
    "HyfdcaPrimalTask",
    "HyfdcaPrimalResult",
    task_carries=Carried(by_sample=1, numbers=1),
    result_carries=Carried(by_feature=1),
)
_PRODUCT = Exchange(
    "HyfdcaProductTask",
    "HyfdcaProductResult",
    task_carries=Carried(by_feature=1),
    result_carries=Carried(by_sample=1),
)
_DUAL = Exchange(
    "HyfdcaDualTask",
    "HyfdcaDualResult",
    task_carries=Carried(by_sample=2, by_feature=1),
    result_carries=Carried(by_sample=2, numbers=1),
)
_PHASES: Final = {
    SYNC: _PRIMAL,
    INNER_PRODUCT: _PRODUCT,
    LOCAL_DUAL: _DUAL,
    PRIMAL: _PRIMAL,
    INNER_PRODUCT_AFTER: _PRODUCT,
}
MESSAGES: Final = Messages(
    phases=_PHASES,
    preparation=PREPARATION,
    state="HyfdcaState",
    state_carries=Carried(by_feature=1),
    choices={ROUND: "HyfdcaRoundChoices", **dict.fromkeys(_PHASES, "HyfdcaLeftOut")},
)


def _ciphertexts(settings: HyfdcaChoices, layout: ClientLayout) -> int:
    """Two vectors by sample; in a sealed run one by feature and one of figures as well."""
    sealed = settings.privacy.encrypts_features
    return 2 * len(layout.block_ids) + sealed * (len(layout.feature_blocks) + 1)


HYFDCA: Final[Family[HyfdcaChoices]] = Family(
    name="hyfdca",
    messages=lambda _: MESSAGES,
    ciphertexts=_ciphertexts,
    row_leak=row_leak_of,
    fewest_changes=fewest_changes,
)
