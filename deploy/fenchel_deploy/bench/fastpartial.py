"""The rounds of corrective HyFDCA with some of the parties, without their halves: fast enough for sweeps.

`FastPartial` goes through the rounds of the real halves on a data set as a whole, in clear and without fixed point, so
that the results differ by rounding. Records, combinations, predictions and local problems are those of the real halves;
every combination is found once, not once for each party.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.points import ANCHOR, BEST, MODEL, POINT, VERTEX
from fenchel_client.algorithms.corrective.settlement import interpolated
from fenchel_client.algorithms.corrective.simplex_qp import dot
from fenchel_client.algorithms.partial.local import found_locally, predicted
from fenchel_client.algorithms.partial.state import KINDS, Combining, OpenPair, PartyState, first_state, gram_numbers
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import STEPS
from fenchel_common.algorithms.corrective.pairs import CATCH_UP, PAIR_DUALS, PAIR_PRIMAL, PAIR_PRODUCTS
from fenchel_common.algorithms.partial.progress import Progress, RoundSteps
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.ids import RoundId
from fenchel_common.objectives import dual, squared_row_norms
from fenchel_common.wire.partial_snapshot import PartialState
from fenchel_deploy.inprocess.layouts import aligned, table_of
from fenchel_server.algorithms.partial.round import PartialRound, begin_round

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

NONE: Final = np.zeros(0)


@dataclass(frozen=True, slots=True)
class _Party:
    """A party's rows and layout, and the positions of its rows and columns among those of the whole table."""

    rows: PartyRows
    layout: ClientLayout
    samples: Positions
    features: Positions


@dataclass(frozen=True, slots=True)
class Ending:
    """The model that a closing round measures, P there, and D at the dual variables that it measures."""

    model: Array
    primal: float
    dual: float


class FastPartial:
    """Corrective HyFDCA with some of the parties on a data set as a whole; every party has labels."""

    def __init__(self, dataset: Dataset, shards: Sequence[Shard], settings: PartialSettings) -> None:
        named, alignment = aligned(shards, seed=settings.seed)
        whole = _whole(dataset)
        self._settings, self._layout, self._loss = settings, alignment.federation, settings.loss_function
        self._rows, self._X, self._y = whole, np.asarray(whole.X), whole.labels()
        self._norms = squared_row_norms(whole.X)
        row_of = {name: row for row, name in enumerate(whole.ids)}
        column_of = {name: column for column, name in enumerate(whole.features)}
        self._parties = {
            client: _party(named[client], alignment.clients[client], row_of, column_of) for client in named
        }
        self._combining = Combining(
            whole, features=self._X.shape[1], lambda_=settings.lambda_, loss=settings.loss_function
        )
        self._state = first_state(whole)
        self._progress = Progress()

    def round(self) -> None:
        current, progress = self._combined(closing=False)
        there, steps = current.choices.participants, progress.rounds[-1]
        if steps.solved:
            self._state = self._combining.solved(self._with_products(steps), steps)
        new = self._new_pair(current, progress) if current.choices.owners else None
        self._progress = progress.after(PAIR_DUALS, there).after(PAIR_PRIMAL, there)
        if new is not None:
            self._keep(steps, new)

    def ending(self) -> Ending:
        """The end of a run that ends here, by a closing round of all parties."""
        steps = self._combined(closing=True)[1].rounds[-1]
        memory = self._combining.joined(self._with_products(steps), steps)
        reached = self._combining.reached(memory, steps.id)[0].entries[(MODEL, steps.id)]
        lambda_ = self._settings.lambda_
        start, end = memory.best.weights, reached.weights
        z, across = (np.asarray(self._X @ weights) for weights in (start, end))
        models = [interpolated(start, end, step) for step in range(STEPS + 1)]
        primals = [
            lambda_ / 2.0 * float(w @ w) + float(self._loss.value(interpolated(z, across, step), self._y).mean())
            for step, w in enumerate(models)
        ]
        best = int(np.argmin(primals))
        reached_dual = dual(self._X, self._y, reached.alpha, loss=self._loss, lambda_=lambda_)
        return Ending(models[best], primals[best], reached_dual)

    def bound(self) -> float:
        """The parties' lower bound of D at the anchor; D itself with losses like `hinge`."""
        memory = self._state.memory
        return memory.anchor.conjugate_part - self._settings.lambda_ / 2.0 * float(memory.gram[0, 0])

    def _combined(self, *, closing: bool) -> tuple[PartialRound, Progress]:
        """The next round, and the progress after its inner products."""
        current = begin_round(
            RoundId(len(self._progress.rounds) + 1),
            frozenset(self._parties),
            closing=closing,
            settings=self._settings,
            layout=self._layout,
            progress=self._progress,
            state=PartialState(),
            told={},
        )
        there, progress = current.choices.participants, current.progress
        if progress.catches_up:
            progress = progress.after(CATCH_UP, there)
        batch, given = progress.next_batch, progress.gathered | there
        whole = bool(batch) and all(not given.isdisjoint(held) for held in self._layout.feature_index.holders)
        return current, progress.after(PAIR_PRODUCTS, there, whole=whole)

    def _with_products(self, steps: RoundSteps) -> PartyState:
        """The state with the products of the models of a round's pairs."""
        state = self._state
        known = [entry.weights for entry in state.memory.entries.values()]
        new = [state.model_of(born, kind) for born in steps.solved for kind in KINDS]
        rows = np.array([dot(weights, other) for weights in new for other in (*known, *new)])
        return replace(state, grams={steps.id: gram_numbers(rows, features=self._X.shape[1])})

    def _new_pair(self, current: PartialRound, progress: Progress) -> dict[str, Array]:
        """The values of a pair on all samples; the anchor's where nobody takes part."""
        anchor, blocks = self._state.memory.anchor.alpha, self._layout.sample_index
        point, vertex = np.zeros(len(anchor)), anchor.copy()
        live = np.zeros(len(anchor), dtype=bool)
        newest = (BEST, 0) if progress.rounds[-1].solved else (ANCHOR, 0)
        for client in current.present:
            party, own = self._parties[client], current.live_of(client)
            if not own:
                continue
            state = self._known_to(party, progress)
            at = party.rows.positions_of(own)
            solution = found_locally(
                party.rows,
                party.layout,
                state,
                predicted(party.rows, party.layout, state, (ANCHOR, 0)),
                live=at,
                norms=self._norms[party.samples],
                strength=current.choices.live_samples / len(at) / (self._settings.lambda_ * len(anchor)),
                loss=self._loss,
                constant=0.0,
            )
            sharing = [len(current.choices.participants.intersection(blocks.holders[block])) for block in own]
            sizes = [len(party.rows.positions[block]) for block in own]
            point[party.samples[at]] += solution / np.repeat(sharing, sizes)
            live[party.samples[at]] = True
            if reports := current.reports_of(client):
                told = party.rows.positions_of(reports)
                z = predicted(party.rows, party.layout, state, newest)[told]
                vertex[party.samples[told]] = self._loss.subgradient(z, self._y[party.samples[told]])
        return {POINT: np.where(live, point, anchor), VERTEX: vertex}

    def _keep(self, steps: RoundSteps, values: Mapping[str, Array]) -> None:
        """Keeps a new pair with its models and conjugates: nobody uses them before it is complete."""
        state, base, born = self._state, self._state.memory.anchor, steps.id
        whole = steps.live_samples == len(self._y)
        count, scale = len(self._y), self._settings.lambda_ * len(self._y)
        before = 0.0 if whole else self._loss.conjugate(base.alpha, self._y).sum()
        models = {kind: np.asarray(self._X.T @ (alpha - base.alpha)) / scale for kind, alpha in values.items()}
        conjugates = [(self._loss.conjugate(alpha, self._y).sum() - before) / count for alpha in values.values()]
        products = {(kind, born): self._X @ (base.weights + models[kind]) for kind in KINDS}
        self._state = replace(
            state,
            pairs={**state.pairs, born: OpenPair(values, base, whole)},
            models={**state.models, born: models},
            conjugates={**state.conjugates, born: np.array(conjugates)},
            predictions={**state.predictions, **products},
        )

    def _known_to(self, party: _Party, progress: Progress) -> PartyState:
        """The state of a party: its rows and columns of every entry, and the predictions that it knows."""
        memory, rows, columns = self._state.memory, party.samples, party.features
        entries = {
            # The mean model is no point, and has no dual variables.
            name: replace(entry, weights=entry.weights[columns], alpha=entry.alpha[rows] if len(entry.alpha) else NONE)
            for name, entry in memory.entries.items()
        }
        predictions = {}
        for kind, born in memory.entries:
            if born == 0:
                continue
            given = progress.pair(born).multiplied
            known = [block for block in sorted(party.rows.shared) if given.issuperset(party.layout.holders[block])]
            values, at = np.full(len(rows), np.nan), party.rows.positions_of(known)
            values[at] = self._state.predictions[(kind, born)][rows[at]]
            predictions[(kind, born)] = values
        return PartyState(0, replace(memory, entries=entries), predictions=predictions)


def _party(shard: Shard, layout: ClientLayout, row_of: Mapping[str, int], column_of: Mapping[str, int]) -> _Party:
    rows = PartyRows(layout, table_of(shard))
    samples = np.array([row_of[name] for name in rows.ids])
    return _Party(rows, layout, samples, np.array([column_of[name] for name in rows.features]))


def _whole(dataset: Dataset) -> PartyRows:
    """The whole table as the rows of one party."""
    (shard,) = partition(dataset, grid=(1, 1))
    named, alignment = aligned([shard], seed=0)
    ((client, layout),) = alignment.clients.items()
    return PartyRows(layout, table_of(named[client]))
