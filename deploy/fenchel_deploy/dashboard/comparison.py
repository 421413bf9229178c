"""Several runs side by side, in the manner of the HyFDCA paper's Figures 3 and 4.

Figure 3 draws the relative loss (P − P*)/P* and the accuracy over the rounds, Figure 4 the mean time of a round by
kind. The paper solves the problem centrally to know P*. Here nobody has the data, so the greatest D that any of the
runs has proven for the same problem takes the place of P*: D ≤ P*, so the true relative loss is at most what is drawn.
"""

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from fenchel_common.privacy import Privacy
from fenchel_deploy.dashboard.convergence import FIT_NAMES, ROUND, SHARES, drawable
from fenchel_deploy.dashboard.costs import KIND_NAMES
from fenchel_deploy.dashboard.documents import (
    Axis,
    Chart,
    Column,
    Document,
    Form,
    Series,
    Table,
    Value,
    with_items,
)
from fenchel_deploy.dashboard.rundocument import RunView, subtitle
from fenchel_deploy.dashboard.sightings import level_chart
from fenchel_deploy.dashboard.thinning import kept_positions
from fenchel_deploy.runstatus import shown_status
from fenchel_server.rounds.ledger import TOTAL

RELATIVE = Axis("(P − best D) / best D, no unit", Form.SMALL, log=True)


def comparison_document(views: Sequence[RunView]) -> Document:
    """The runs side by side."""
    names = _names(views)
    sections = (
        with_items(
            "convergence",
            "How fast each comes near the optimum",
            *_relative_losses(names),
            _fit(names),
            _summary(names),
        ),
        with_items("costs", "What a round costs", _mean_times(names), _mean_bytes(names)),
        with_items(
            "sights",
            "What the server saw",
            level_chart({name: view.history.ledger(json.loads(view.record.seen)) for name, view in names.items()}),
        ),
    )
    clear = [name for name, view in names.items() if view.config.privacy is Privacy.PLAIN]
    return Document(
        kind="comparison",
        name="+".join(view.record.run for view in views),
        title=f"{len(views)} runs side by side",
        subtitle="; ".join(names),
        status="",
        reason="",
        live=any(view.live for view in views),
        sections=tuple(section for section in sections if section is not None),
        warning=f"PLAINTEXT: nothing was encrypted in {', '.join(clear)}." if clear else "",
    )


def _names(views: Sequence[RunView]) -> dict[str, RunView]:
    """The runs by what tells them apart."""
    short = [view.record.name for view in views]
    long = [f"{view.record.name}, {subtitle(view).partition(';')[0]}" for view in views]
    for names in (short, long):
        if len(set(names)) == len(views):
            return dict(zip(names, views, strict=True))
    return {f"{name}, {view.record.run}": view for name, view in zip(long, views, strict=True)}


def _problem(view: RunView) -> tuple[object, ...]:
    """What the optimum depends on, as far as the store knows; runs of one problem have the same optimum."""
    settings, layout = view.config.algorithm_settings(), view.layout
    size = None if layout is None else (layout.sample_count, len(layout.features))
    features = view.config.features
    return (settings.loss, settings.lambda_, size, None if features is None else features.model_dump_json())


def _best_bounds(views: Sequence[RunView]) -> dict[tuple[object, ...], float]:
    """For each problem the greatest D that a run has proven."""
    best: dict[tuple[object, ...], float] = {}
    for view in views:
        duals = view.history.measure("dual")
        if np.isfinite(duals).any():
            best[_problem(view)] = max(best.get(_problem(view), -math.inf), float(np.nanmax(duals)))
    return {problem: bound for problem, bound in best.items() if bound > 0}


def _relative_losses(names: Mapping[str, RunView]) -> list[Chart]:
    best = _best_bounds(list(names.values()))
    known = {name: view for name, view in names.items() if _problem(view) in best}
    if not known:
        return []
    by_round: list[Series] = []
    by_second: list[Series] = []
    for name, view in known.items():
        bound = best[_problem(view)]
        losses = (view.history.measure("primal") - bound) / bound
        if not len(losses):
            continue
        kept = kept_positions([losses])
        values = tuple(drawable(losses[position], RELATIVE) for position in kept)
        seconds = np.cumsum(view.history.seconds[TOTAL])
        by_round.append(Series(name, values, tuple(view.history.rounds[position] for position in kept)))
        by_second.append(Series(name, values, tuple(float(seconds[position]) for position in kept)))
    caption = (
        "P of each run's model against the greatest lower bound D that any of these runs has proven for the same loss, "
        "λ and table. The true relative loss is at most what is drawn."
    )
    slots = tuple(list(names).index(one.name) for one in by_round)
    seconds_axis = Axis("seconds of all rounds, without set-up", Form.SECONDS)
    return [
        Chart(key, title, "lines", x, RELATIVE, (), tuple(series), caption, slots=slots)
        for key, title, x, series in (
            ("relative", "Relative loss by round", ROUND, by_round),
            ("relative-time", "Relative loss by time", seconds_axis, by_second),
        )
    ]


def _fit(names: Mapping[str, RunView]) -> Chart | None:
    """The accuracy by round or, in regression, the first of the other figures that all the runs have."""
    for figure, title in FIT_NAMES.items():
        found = {name: view for name, view in names.items() if np.isfinite(view.history.measure(figure)).any()}
        if not found:
            continue
        y = Axis("share of training samples" if figure in SHARES else title, Form.SHARE)
        y = y if figure in SHARES else Axis(title, Form.FIGURE)
        series = []
        for name, view in found.items():
            values = view.history.measure(figure)
            kept = kept_positions([values])
            drawn = tuple(drawable(values[position], y) for position in kept)
            series.append(Series(name, drawn, tuple(view.history.rounds[position] for position in kept)))
        slots = tuple(list(names).index(name) for name in found)
        return Chart("fit", f"{title.capitalize()} by round", "lines", ROUND, y, (), tuple(series), slots=slots)
    return None


def _mean_times(names: Mapping[str, RunView]) -> Chart | None:
    trained = {name: view for name, view in names.items() if view.history.rounds}
    if not trained:
        return None
    means = {
        kind: tuple(float(np.mean(view.history.seconds[kind])) for view in trained.values()) for kind in KIND_NAMES
    }
    kinds = [kind for kind in KIND_NAMES if any(means[kind])]
    slots = list(KIND_NAMES)
    return Chart(
        "mean-time",
        "Mean time of a round, by kind",
        "stack",
        Axis("run", Form.TEXT),
        Axis("seconds a round", Form.SECONDS),
        tuple(trained),
        tuple(Series(KIND_NAMES[kind], means[kind]) for kind in kinds),
        slots=tuple(slots.index(kind) for kind in kinds),
    )


def _mean_bytes(names: Mapping[str, RunView]) -> Chart | None:
    trained = {name: view.history for name, view in names.items() if view.history.rounds}
    if not trained:
        return None
    return Chart(
        "mean-bytes",
        "Mean bytes of a round",
        "stack",
        Axis("run", Form.TEXT),
        Axis("bytes a round", Form.BYTES),
        tuple(trained),
        (
            Series("to the server", tuple(float(np.mean(one.bytes_up)) for one in trained.values())),
            Series("to the parties", tuple(float(np.mean(one.bytes_down)) for one in trained.values())),
        ),
        slots=(0, 2),
    )


def _summary(names: Mapping[str, RunView]) -> Table:
    columns = (
        Column("run"),
        Column("settings"),
        Column("status"),
        Column("rounds", Form.COUNT),
        Column("objective P", Form.FIGURE),
        Column("duality gap", Form.SMALL),
        Column("accuracy", Form.SHARE),
        Column("time", Form.SECONDS),
        Column("traffic", Form.BYTES),
    )
    rows: list[tuple[Value, ...]] = []
    for name, view in names.items():
        history = view.history
        last = history.last_measured()
        found = {key: None if last is None else history.measures[key][last] for key in ("primal", "gap", "accuracy")}
        shown = [None if value is None or math.isnan(value) else value for value in found.values()]
        status = shown_status(view.record, served=view.served)
        rounds = sum(not closing for closing in history.closing)
        costs = (history.total_seconds(), sum(history.total_bytes()))
        rows.append((name, subtitle(view), status, rounds, *shown, *costs))
    return Table("summary", "The runs", columns, tuple(rows))
