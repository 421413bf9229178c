"""Count, sum and sum of squares of the labels of all samples, before the first round, for the parties with labels.

Each sample counts once: the first of its holders that has labels gives its label. Each party with labels encrypts the
figures of the samples that it gives, the server adds them up, and each of these parties opens the sum. From it follow
the sizes of the classes, or mean and deviation of numbers to predict. Of several classes there are the figures of each:
of the labels +1 for its samples and −1 for all others.

Protects: the server sees ciphertext. A sum opens only if it is the sum over all parties with labels.

Does not protect: where exactly two parties have labels, each learns the other's figures by subtracting its own. A party
without labels does not get the sum, but has the key that opens it: it could, together with the server.
"""

from collections.abc import Mapping
from typing import Final

from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Stamp, number_places
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.labelrules import LabelRules
from fenchel_common.labelscaling import label_moments
from fenchel_common.moments import MOMENT_FIELDS, Moments

FIELD: Final = "label-moments"


class LabelMoments:
    """A party's part in the sums.

    Parameters
    ----------
    cipher
        That of vectors by sample, which encrypts at every level that has a key.
    """

    def __init__(
        self, layout: ClientLayout, table: PartyTable, rules: LabelRules, *, cipher: Cipher, seal: Seal
    ) -> None:
        self._layout, self._table, self._rules = layout, table, rules
        self._cipher, self._seal = cipher, seal
        self._places = number_places(-(-MOMENT_FIELDS * rules.problems // cipher.slots))

    def contribution(self) -> Vector | None:
        """The encrypted figures of this party's labels; None without labels."""
        y = self._table.y
        if y is None:
            return None
        try:
            own = label_moments(self._rules, y[self._layout.rows_of(self._layout.reports)])
        except InvalidInput as error:
            raise DataUnfit(f"y: {error}", public_reason="its data do not fit this run") from error
        return self._seal.close(
            own.limbs().reshape(-1),
            PRODUCT_FORMAT,
            cipher=self._cipher,
            field=FIELD,
            places=self._places,
            among=[dict.fromkeys(self._layout.label_holders)] * len(self._places),
        )

    def whole(self, sums: Vector | None, given: Mapping[ClientId, Stamp]) -> Moments | None:
        """The figures of all labels, None without labels; raises as `Seal.open` does, or `InvalidInput`."""
        if (sums is None) != (self._table.y is None):
            raise InvalidInput("label_sums: must be there if and only if this party has labels")
        if sums is None:
            return None
        if sums.length != MOMENT_FIELDS * self._rules.problems:
            raise InvalidInput("label_sums: must have the figures of each problem of the run")
        origins = [
            Origin(given[holder], FIELD) for holder in self._layout.clients if holder in self._layout.label_holders
        ]
        opened = self._seal.open(sums, cipher=self._cipher, origins=[origins] * len(self._places), places=self._places)
        found = Moments.from_limbs(opened.reshape(MOMENT_FIELDS, self._rules.problems))
        if any(count != self._layout.sample_count for count in found.counts):
            raise InvalidInput("label_sums: must count every sample of the federation once")
        return found
