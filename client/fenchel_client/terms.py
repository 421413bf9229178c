"""Whether a party can agree to the terms of a run: its operator's consent, and its own data."""

import logging

from fenchel_client.alignment.vocabularies import check_offered, offered_vocabulary
from fenchel_client.consent import Consent
from fenchel_client.runtable import UNFIT, check_constant
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.row_leak import row_leak, row_leak_warning
from fenchel_common.data.categories import listed_names
from fenchel_common.data.missingcells import check_prepared
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.moments import LARGEST
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
    check_data(config, table)


def check_data(config: RunConfig, table: PartyTable) -> None:
    """Raises `DataUnfit` for a table that does not fit the run, by all that can be known before a run.

    `table` is the party's own, before the run has made features of it.
    """
    if table.spread and (
        config.features is not None or not isinstance(config.algorithm_settings(), CorrectiveSettings)
    ):
        raise DataUnfit(
            'workers hold the rows of this party, which serves runs of HyFDCA with local = "corrective", all parties '
            "and without [features]; start the client without --rows-on-workers for other runs",
            public_reason=UNFIT,
        )
    try:
        if table.y is not None:
            config.algorithm_settings().check_labels(table.y, table.weights)
        check_prepared(table.missing(), sparse=table.sparse, categories=table.categories, config=config.features)
    except InvalidInput as error:
        raise DataUnfit(str(error), public_reason=UNFIT) from error
    check_constant(table, config)
    if config.features is not None:
        check_offered(offered_vocabulary(table, config.features))
        if large := table.columns_from(LARGEST):
            raise DataUnfit(
                f"column {large[0]!r}: a value is {LARGEST:.2g} or more in magnitude; give it in a larger unit, or "
                "correct the number, if it stands for a missing value",
                public_reason=UNFIT,
            )
