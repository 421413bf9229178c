"""What a party gives between its layout and the first round: moments, counts, lengths, marks, the preparation."""

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.activerun import ActiveRun
from fenchel_client.labelmoments import LabelMoments
from fenchel_client.labels import LabelComparison
from fenchel_client.moments import FeatureMoments
from fenchel_client.preparedtable import table_of_run
from fenchel_client.ranges import FeatureRanges
from fenchel_client.rowlengths import RowLengths
from fenchel_client.runtable import run_vocabulary
from fenchel_client.scaling import Scaling
from fenchel_client.table import PartyTable
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId
from fenchel_common.intercept import INTERCEPT
from fenchel_common.labelrules import LabelRules
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.moments import Moments
from fenchel_common.privatelog import PRIVATE
from fenchel_common.ranges import RANKS, RangeSearch
from fenchel_common.setup import LayoutResult, PartyRun
from fenchel_common.wire.labels import moment_sums_from_bytes

log = logging.getLogger(__name__)

SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class LearntMoments:
    """The moments of a party's features over all their holders, and those of all labels; None if the run needs none.

    `ranges` is the search for extremes or quantiles of the features, once it is over.
    """

    features: Moments | None
    labels: Moments | None
    ranges: RangeSearch | None = None

    def recorded(self, kept: PartyRun, rules: LabelRules, table: PartyTable, *, flags: Collection[str]) -> PartyRun:
        """The record of the run with what prepares features and labels of `table`, by the moments.

        `flags` are the names of features of 0 and 1 that the run has made, at any party. `InvalidInput` for labels that
        cannot be prepared.
        """
        scaling = b""
        if self.features is not None:
            assert kept.config.features is not None, "without [features] there are no moments of features"
            made = _marked(table, flags)
            found = Scaling.of(self.features, kept.config.features, flags=made, ranges=self.ranges)
            if INTERCEPT in table.features:
                constant = kept.config.algorithm_settings().constant
                found = found.with_constant(sorted(table.features).index(INTERCEPT), constant)
            scaling = found.to_bytes()
        labels = LabelScaling.of(rules, self.labels)
        if table.y is not None and rules.standardise:
            labels.check_outliers(table.y)
        return replace(kept, scaling=scaling, labels=labels.to_bytes())


def _marked(table: PartyTable, names: Collection[str]) -> NDArray[np.bool_]:
    """(m,) which features of the table, sorted by name, have one of these names."""
    return np.array([name in names for name in sorted(table.features)])


def _tell_constant(moments: Moments, active: ActiveRun) -> None:
    """Says in the party's log which of its features say nothing, where the run makes zeros of them.

    A feature for other values of a category is no news where no used sample has one.
    """
    config = active.kept.config.features
    if config is None or config.scale not in ("standard", *RANKS):
        return
    pairs = zip(sorted(active.table.features), moments.deviations().tolist(), strict=True)
    made = {INTERCEPT, *run_vocabulary(active.table, active.kept.vocabulary).names_of_others()}
    constant = [name for name, deviation in pairs if deviation == 0.0 and name not in made]
    if constant:
        more = f" and {len(constant) - SHOWN} more" if len(constant) > SHOWN else ""
        log.warning(
            "run %s: %s%s: all values are the same at all holders together, so that these features say nothing",
            active.run,
            ", ".join(map(repr, constant[:SHOWN])),
            more,
            extra=PRIVATE,
        )


def with_lengths(kept: PartyRun, lengths: NDArray[np.float64], *, features: int) -> PartyRun:
    """The record of a run whose rows are divided by these lengths; rows of zeros stay as they are."""
    scaling = Scaling.from_bytes(kept.scaling, features=features)
    return replace(kept, scaling=replace(scaling, lengths=np.where(lengths > 0.0, lengths, 1.0)).to_bytes())


class FirstResults:
    """The answers of one set-up after the layout.

    Attributes
    ----------
    labels
        The comparison of labels.
    preparing
        Whether the run learns moments, and the party has not yet been told their sums.
    ranges
        The search for extremes or quantiles, while it lasts; else None.
    lengths
        The lengths of the rows, once features are prepared, until the rows are divided by them; else None.
    """

    def __init__(self, active: ActiveRun, *, secret: bytes, run: RunId) -> None:
        config, seal, cipher, table = active.kept.config, active.participant.seal, active.cipher, active.table
        self.labels = LabelComparison(
            active.layout, table, cipher=cipher, key=active.key, seal=seal, secret=secret, run=run
        )
        self.ranges: FeatureRanges | None = None
        self.lengths: RowLengths | None = None
        self._moments: LearntMoments | None = None
        self.preparing = config.prepares
        self._features: FeatureMoments | None = None
        if config.features is not None:
            self._features = FeatureMoments(active.layout, table, cipher=cipher, seal=seal)
        self._labels: LabelMoments | None = None
        if active.settings.label_rules.learns:
            self._labels = LabelMoments(active.layout, table, active.settings.label_rules, cipher=cipher, seal=seal)

    def first(self, active: ActiveRun) -> LayoutResult:
        """The answer to the layout."""
        seed = active.settings.seed if active.kept.config.seed is None else None
        if not self.preparing:
            return self.prepared(active, seed)
        moments = () if self._features is None else self._features.contribution()
        return LayoutResult(b"", None, seed, moments, None if self._labels is None else self._labels.contribution())

    def learnt(self, body: bytes, active: ActiveRun) -> LearntMoments:
        """The moments in the sums of `body`; raises as `Seal.open` does, or `InvalidInput`."""
        blocks = frozenset(() if self._features is None else self._features.blocks)
        layout, transcript = active.layout, active.participant.transcript
        sums = moment_sums_from_bytes(body, blocks=blocks, slots=layout.feature_slots, key=active.key)
        if (sums.features and self._features is None) or (sums.labels is not None and self._labels is None):
            raise InvalidInput("sums: the run has no [features], or learns nothing of labels")
        transcript.take_one(sums.record)
        given = transcript.preparations
        if len(given) != len(layout.clients):
            raise InvalidInput("record: every party must have answered to its layout")
        features = None if self._features is None else self._features.whole(sums.features, given)
        if features is not None:
            _tell_constant(features, active)
        return LearntMoments(
            features=features,
            labels=None if self._labels is None else self._labels.whole(sums.labels, given),
        )

    def begin_search(self, body: bytes, active: ActiveRun) -> None:
        """Learns the moments in the sums of `body`, as `learnt` does, and begins the search that the run has."""
        self._moments, config = self.learnt(body, active), active.kept.config
        assert config.features is not None, "only [features] can ask for a search"
        assert config.range_scale is not None, "the run has a search"
        assert self._moments.features is not None, "a run with [features] has moments of features"
        fewest = config.features.fewest_values
        flags = _marked(active.table, run_vocabulary(active.table, active.kept.vocabulary).flags())
        search = RangeSearch.of(self._moments.features, config.range_scale, fewest=fewest, flags=flags)
        names = sorted(active.table.features)
        if few := [names[position] for position in np.flatnonzero(~flags & (search.totals < fewest))]:
            log.warning(
                "run %s: %s: fewer than %d values at all holders together; standardised instead, by mean and deviation",
                active.run,
                ", ".join(map(repr, few)),
                fewest,
                extra=PRIVATE,
            )
        self.ranges = FeatureRanges(
            active.layout, active.table, search, cipher=active.cipher, key=active.key, seal=active.participant.seal
        )

    def counted(self) -> LayoutResult:
        """The answer before the next step of the search."""
        assert self.ranges is not None, "there is a search while it lasts"
        return LayoutResult(b"", None, counts=self.ranges.contribution())

    def found(self, ranges: FeatureRanges, body: bytes, active: ActiveRun) -> LearntMoments:
        """The moments with the search `ranges` after its last step; raises as `FeatureRanges.take` does."""
        assert self._moments is not None, "the search begins with the moments"
        ranges.take(body, active.participant.transcript)
        return replace(self._moments, ranges=ranges.search)

    def second(self, active: ActiveRun) -> LayoutResult:
        """The answer once features and labels are prepared: lengths of rows, if the run divides by them."""
        kept, seal = active.kept, active.participant.seal
        if kept.config.features is None or kept.config.features.rows != "unit":
            return self.prepared(active)
        table = table_of_run(active.table, active.settings.label_rules, scaling=kept.scaling, labels=kept.labels)
        self.lengths = RowLengths(active.layout, table, cipher=active.cipher, key=active.key, seal=seal)
        return LayoutResult(b"", None, lengths=self.lengths.contribution())

    def prepared(self, active: ActiveRun, seed: int | None = None) -> LayoutResult:
        """The answer once all is prepared."""
        return LayoutResult(active.participant.algorithm.preparation(), self.labels.marks(), seed)
