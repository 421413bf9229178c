"""What a party gives between its layout and the first round: moments of features, marks of labels, the preparation."""

from fenchel_client.activerun import ActiveRun
from fenchel_client.labels import LabelComparison
from fenchel_client.moments import FeatureMoments
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
    """

    def __init__(self, active: ActiveRun, *, secret: bytes, run: RunId) -> None:
        seal, table = active.participant.seal, active.table
        self.labels = LabelComparison(
            active.layout, table, cipher=active.cipher, key=active.key, seal=seal, secret=secret, run=run
        )
        self.moments: FeatureMoments | None = None
        if active.kept.config.features is not None:
            self.moments = FeatureMoments(active.layout, table, cipher=active.cipher, key=active.key, seal=seal)

    def first(self, active: ActiveRun) -> LayoutResult:
        """The answer to the layout."""
        seed = active.settings.seed if active.kept.config.seed is None else None
        if self.moments is None:
            return self._prepared(active, seed)
        return LayoutResult(b"", None, seed, self.moments.contribution())

    def second(self, active: ActiveRun) -> LayoutResult:
        """The answer once the features of the active run are prepared."""
        return self._prepared(active, None)

    def _prepared(self, active: ActiveRun, seed: int | None) -> LayoutResult:
        return LayoutResult(active.participant.algorithm.preparation(), self.labels.marks(), seed)
