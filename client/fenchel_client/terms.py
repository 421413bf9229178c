"""Whether a party can agree to the terms of a run: its operator's consent, and its own data."""

import logging

from fenchel_client.consent import Consent
from fenchel_client.runtable import check_constant
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.row_leak import row_leak, row_leak_warning
from fenchel_common.data.categories import listed_names
from fenchel_common.data.missingcells import check_prepared
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.runconfig import RunConfig

log = logging.getLogger(__name__)


def check_terms(config: RunConfig, consent: Consent, table: PartyTable) -> None:
    """Refuses a run that asks for more than the operator agreed to, or that this party's data do not fit.

    Warns of one that can leak rows.
    """
    consent.check(config)
    if (
        reason := row_leak(config.algorithm_settings(), width=len(listed_names(table.features, table.categories)))
    ) is not None:
        log.warning("%s", row_leak_warning(reason))
    try:
        if table.y is not None:
            config.algorithm_settings().check_labels(table.y, table.weights)
        check_prepared(table.missing(), sparse=table.sparse, categories=table.categories, config=config.features)
    except InvalidInput as error:
        raise DataUnfit(str(error), public_reason="its data do not fit this run") from error
    check_constant(table, config)
