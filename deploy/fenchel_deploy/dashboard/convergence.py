"""How near a run has come to the optimum: its certificate in numbers and in words, and the charts of its figures."""

import math

import numpy as np

from fenchel_common.metrics import CLASS_ACCURACY, R2, RMSE
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.dashboard.documents import Axis, Chart, Column, Fact, Facts, Form, Prose, Series, Table, Value
from fenchel_deploy.dashboard.history import RunHistory
from fenchel_deploy.dashboard.thinning import kept_positions

ROUND = Axis("round", Form.COUNT)
FIT_NAMES = {"accuracy": "accuracy", RMSE: "RMSE", R2: "R²", CLASS_ACCURACY: "mean accuracy of classes"}
SHARES = frozenset({"accuracy", CLASS_ACCURACY})


def convergence_charts(history: RunHistory, config: RunConfig) -> list[Chart]:
    """The gap, the objective between its bounds, and the fit; each only if some round has it."""
    certified = config.algorithm_settings().profile.certified
    legs = " The path goes through its λ, the largest first, once for each fold." if config.path is not None else ""
    charts = []
    if _any(history, "gap"):
        charts.append(
            _lines(
                history,
                "gap",
                "The duality gap",
                {"gap": "duality gap"},
                Axis("duality gap P − D, no unit", Form.SMALL, log=True),
                caption="A bound on the distance to the optimum of all data together. It is computed from encrypted "
                "training alone." + legs,
                goal=config.stop.gap if certified else None,
            )
        )
    if _any(history, "primal"):
        positive = all(value > 0 for value in history.measures["primal"] if not math.isnan(value))
        bounded = _any(history, "dual")
        charts.append(
            _lines(
                history,
                "objective",
                "The objective",
                {"primal": "P, of the model"} | ({"dual": "D, below every model"} if bounded else {}),
                Axis("mean loss + regularisation, no unit", Form.FIGURE, log=positive),
                caption=("The optimum lies between the two lines." if bounded else "") + legs,
            )
        )
    if fits := [name for name in FIT_NAMES if _any(history, name)]:
        shares = set(fits) <= SHARES
        charts.append(
            _lines(
                history,
                "fit",
                "How well the model predicts",
                {name: FIT_NAMES[name] for name in fits},
                Axis("share of training samples", Form.SHARE)
                if shares
                else Axis("of the labels as the run uses them", Form.FIGURE),
                caption="On the samples that it is trained on." + legs,
            )
        )
    return charts


def _lines(
    history: RunHistory,
    key: str,
    title: str,
    names: dict[str, str],
    y: Axis,
    *,
    caption: str = "",
    goal: float | None = None,
) -> Chart:
    lines = [history.measure(name) for name in names]
    kept = kept_positions(lines)
    series = tuple(
        Series(name, tuple(drawable(line[position], y) for position in kept))
        for name, line in zip(names.values(), lines, strict=True)
    )
    at = tuple(history.rounds[position] for position in kept)
    return Chart(key, title, "lines", ROUND, y, at, series, caption=caption, goal=goal)


def drawable(value: float, y: Axis) -> Value:
    """The value; None if it is not known, not finite, or has no place on a logarithmic axis."""
    return float(value) if math.isfinite(value) and (value > 0 or not y.log) else None


def _any(history: RunHistory, name: str) -> bool:
    return bool(np.isfinite(history.measure(name)).any())


def certificate_facts(history: RunHistory, config: RunConfig) -> list[Fact]:
    """The last certificate, as far as there is one."""
    last = history.last_measured()
    if last is None:
        return []
    certified = config.algorithm_settings().profile.certified
    found = {name: _known(history, name, last) for name in ("gap", "primal", "dual", *FIT_NAMES)}
    facts = []
    if certified:
        goal = config.stop.gap
        note = "" if goal is None else f"goal {written(goal)}"
        facts.append(Fact("duality gap", found["gap"], Form.SMALL, note or "no goal set"))
    facts.append(Fact("objective P(w)", found["primal"], Form.FIGURE, f"after round {history.rounds[last]}"))
    for name, title in FIT_NAMES.items():
        if found[name] is not None:
            facts.append(Fact(title, found[name], Form.SHARE if name in SHARES else Form.FIGURE, "on training samples"))
    return facts


def score_facts(history: RunHistory) -> Facts | None:
    """How well the final model scores all samples, where the parties have measured it."""
    scores = history.scores
    if scores is None:
        return None
    bound = "" if scores.auc_error is None else f"the true one is at most {written(scores.auc_error)} away"
    facts = (
        Fact("AUC", scores.auc, Form.FIGURE, bound),
        Fact("log loss", scores.log_loss, Form.FIGURE, "mean of −log p"),
        Fact("Brier score", scores.brier, Form.FIGURE, "mean of (1 − p)²"),
        Fact("accuracy of classes", scores.classes_accuracy, Form.SHARE),
    )
    known = tuple(fact for fact in facts if fact.value is not None)
    return Facts("scores", known) if known else None


def calibration_table(history: RunHistory) -> Table | None:
    """How often samples are of the class, beside the probability that the model predicts for them."""
    if history.scores is None or not history.scores.calibration:
        return None
    columns = (Column("samples", Form.COUNT), Column("predicted", Form.SHARE), Column("observed", Form.SHARE))
    rows = tuple((row.samples, row.predicted, row.observed) for row in history.scores.calibration)
    caption = "Samples by the probability that is predicted: its mean, and the share of them that are of the class."
    return Table("calibration", "Calibration", columns, rows, caption)


def certificate_in_words(history: RunHistory, config: RunConfig) -> Prose:
    """What the certificate proves, for people who do not know what a duality gap is."""
    settings = config.algorithm_settings()
    if not settings.profile.certified:
        text = (
            f"The algorithm {config.algorithm} has no certificate: nothing in this run proves how far the model is "
            "from the optimum. Compare it with a run of an algorithm that has one."
        )
        return Prose("certificate", (text,), leading=True)
    last = history.last_measured()
    gap = None if last is None else _known(history, "gap", last)
    if last is None or gap is None:
        text = "There is no certificate yet: no round has measured the model with contributions of all parties."
        return Prose("certificate", (text,), leading=True)
    return Prose("certificate", _proof(history, config, last, gap), leading=True)


def _proof(history: RunHistory, config: RunConfig, last: int, gap: float) -> tuple[str, ...]:
    settings = config.algorithm_settings()
    if not math.isfinite(gap):
        return ("The values of this run left all bounds: it diverged, and nothing is proven of its model.",)
    primal, dual = _known(history, "primal", last), _known(history, "dual", last)
    error = _known(history, "gap_error", last)
    relative = (
        f", which is at most {100 * gap / dual:.2g}\N{NO-BREAK SPACE}% of it" if dual is not None and dual > 0 else ""
    )
    first = (
        f"No model has an objective that is lower than this one's by more than {written(gap)}{relative}: not even a "
        "model trained on all data together in one place."
    )
    second = f"Round {history.rounds[last]} measured P(w) = {primal:.9g} for the model"
    if dual is not None:
        second += f", and D(α) = {dual:.9g}, which no model can go below"
    second += f"; the gap is their difference. Loss {settings.loss}, λ = {settings.lambda_:g}."
    if error is not None:
        second += f" The gap includes {written(error)} for all that fixed-point rounding can have hidden."
    goal = config.stop.gap
    third = ""
    if goal is not None:
        third = f"The run asked for {written(goal)}: " + ("reached." if gap <= goal else "not reached so far.")
    return tuple(filter(None, (first, second, third)))


def written(value: float) -> str:
    """A small number with three digits, as the page writes it."""
    digits, exponent = f"{value:.2e}".split("e")
    return (
        f"{value:.3g}"
        if value == 0 or 0.01 <= abs(value) < 1000
        else f"{digits}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{_raised(int(exponent))}"
    )


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _known(history: RunHistory, name: str, position: int) -> float | None:
    value = history.measures[name][position]
    return None if math.isnan(value) else value
