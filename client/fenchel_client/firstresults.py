"""What a party gives between its layout and the first round: moments of features, marks of labels, the preparation."""

from fenchel_client.activerun import ActiveRun
from fenchel_client.labels import LabelComparison
from fenchel_client.moments import FeatureMoments
from fenchel_client.preparedtable import PreparedTable
from fenchel_client.rowlengths import RowLengths
from fenchel_client.table import PartyTable
from fenchel_common.ids import RunId
from fenchel_common.setup import LayoutResult


class FirstResults:
    """The answers of one set-up after the layout.

    Attributes
    ----------
    labels
        The comparison of labels.
    moments
        The moments of the features, until they are prepared; None in a run without `[features]`.
    lengths
        The lengths of the rows, from then on until the rows are divided by them; else None.
    """

    def __init__(self, active: ActiveRun, table: PartyTable, *, secret: bytes, run: RunId) -> None:
        self._table = table
        seal = active.participant.seal
        self.labels = LabelComparison(
            active.layout, table, cipher=active.cipher, key=active.key, seal=seal, secret=secret, run=run
        )
        self.moments: FeatureMoments | None = None
        self.lengths: RowLengths | None = None
        if active.kept.config.features is not None:
            self.moments = FeatureMoments(active.layout, table, cipher=active.cipher, key=active.key, seal=seal)

    def first(self, active: ActiveRun) -> LayoutResult:
        """The answer to the layout."""
        seed = active.settings.seed if active.kept.config.seed is None else None
        if self.moments is None:
            return self.prepared(active, seed)
        return LayoutResult(b"", None, seed, self.moments.contribution())

    def second(self, active: ActiveRun) -> LayoutResult:
        """The answer once the features of the active run are prepared: lengths of rows if it divides by them."""
        features = active.kept.config.features
        if features is None or features.rows != "unit":
            return self.prepared(active)
        table = PreparedTable.recorded(self._table, active.kept.scaling)
        seal = active.participant.seal
        self.lengths = RowLengths(active.layout, table, cipher=active.cipher, key=active.key, seal=seal)
        return LayoutResult(b"", None, lengths=self.lengths.contribution())

    def prepared(self, active: ActiveRun, seed: int | None = None) -> LayoutResult:
        """The answer once all is prepared."""
        return LayoutResult(active.participant.algorithm.preparation(), self.labels.marks(), seed)
