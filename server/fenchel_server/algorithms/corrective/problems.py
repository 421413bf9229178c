"""The problems of a corrective run: one, or one for each class in a run of several classes.

All problems of a run have the same layout, participants and collapses. A problem that has reached the gap of the run
stands still while others go on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from fenchel_common.algorithms.corrective.messages import SCORES_FIELD
from fenchel_common.crypto.vectors import Vector
from fenchel_common.losses import Fit
from fenchel_common.metrics import CLASS_ACCURACY, RoundMetrics
from fenchel_common.scoresums import ScoreFigures
from fenchel_common.wire.corrective_snapshot import CorrectiveState, Reached
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.certificate import Certificate, with_certificate
from fenchel_server.algorithms.corrective.ending import RoundEnd
from fenchel_server.algorithms.corrective.exchange import CorrectiveAnswer
from fenchel_server.algorithms.corrective.round import CorrectiveRound
from fenchel_server.algorithms.intake import Answers
from fenchel_server.algorithms.phased import RoundUnderWay
from fenchel_server.contract import Outcome

Scores = Mapping[int, ScoreFigures]
"""How well the models of problems predict that have ended."""
NOT_MEASURED: Final[Scores] = {}
UNCERTIFIED: Final = "no certificate: a party was missing"


@dataclass(slots=True, kw_only=True)
class CorrectiveRounds(RoundUnderWay):
    """A round under way, with that of each problem under way, by its position among the problems of the run.

    Attributes
    ----------
    ends
        The end of each of these rounds, from the answers to `primal` on.
    """

    problems: Mapping[int, CorrectiveRound]
    ends: Mapping[int, RoundEnd] = field(default_factory=dict)

    @classmethod
    def of(cls, problems: Mapping[int, CorrectiveRound]) -> "CorrectiveRounds":
        first = next(iter(problems.values()))
        return cls(
            id=first.id, closing=first.closing, present=first.present, absences=first.absences, problems=problems
        )

    @property
    def first(self) -> CorrectiveRound:
        """The round of the first problem under way, for what all of them have in common."""
        return next(iter(self.problems.values()))


def answers_of(answers: Answers[Mapping[int, CorrectiveAnswer]], problem: int) -> Answers[CorrectiveAnswer]:
    """The answers that concern one of the problems."""
    good = {client: kept[problem] for client, kept in answers.good.items()}
    return Answers(good, answers.failed, answers.sums.of_problem(problem))


def run_outcome(ends: Mapping[int, RoundEnd]) -> tuple[Outcome | None, str]:
    """How and why the run ends after a round; None and empty if it continues.

    `ends` has the end of the round of each problem under way. The run has converged when all of them have.
    """
    going_on = [end for end in ends.values() if end.outcome is not Outcome.CONVERGED]
    last = next(iter(going_on or ends.values()))
    return last.outcome, last.reason


def states_after(states: Sequence[CorrectiveState], ends: Mapping[int, RoundEnd]) -> list[CorrectiveState]:
    """The state of each problem after a round; one that has reached the gap stands still if others go on."""
    outcome, _ = run_outcome(ends)
    after = list(states)
    for problem, end in ends.items():
        after[problem] = end.state
        if outcome is None and end.outcome is Outcome.CONVERGED and end.certificate is not None:
            after[problem] = replace(end.state, reached=_reached(end.certificate))
    return after


def round_metrics(
    current: CorrectiveRounds,
    states: Sequence[CorrectiveState],
    ends: Mapping[int, RoundEnd],
    *,
    classes: Sequence[str],
    scores: Scores,
) -> RoundMetrics:
    """The metrics of a round; `states` are those before its end, `classes` the names of several problems.

    `scores` say how well the models of problems predict that have ended with the round.
    """
    certificates = _certificates_of(states, ends)
    certificate = None if certificates is None else _certificate_of_run(certificates)
    void = next(iter(ends.values())).void
    metrics = with_certificate(
        RoundMetrics(
            round=current.id,
            samples_updated=_moved_samples(current.first, ends),
            participants=tuple(current.present),
            absences=current.absences,
        ),
        certificate,
        (void, UNCERTIFIED if current.first.certifying and certificate is None else ""),
    )
    if not classes:
        return replace(metrics, scores=scores.get(0), leg=current.first.leg)
    if certificates is not None:
        metrics = replace(metrics, figures=_class_figures(classes, certificates))
    told = {
        f"{name} of {classes[problem]}": value for problem, of in scores.items() for name, value in of.named().items()
    }
    joint = next((of.classes_accuracy for of in scores.values() if of.classes_accuracy is not None), None)
    return replace(metrics, figures={**metrics.figures, **told}, accuracy=joint)


def totals_of_scores(
    ends: Mapping[int, RoundEnd], answers: Answers[Mapping[int, CorrectiveAnswer]]
) -> dict[int, Vector]:
    """The totals of the sums of scores of each problem that ends, from the answers to `primal`.

    None of them can be opened if a client has failed.
    """
    if answers.failed:
        return {}
    totals = {
        problem: answers.sums.of_problem(problem).total(SCORES_FIELD)
        for problem, end in ends.items()
        if end.outcome is not None or end.leg_over
    }
    return {problem: total for problem, total in totals.items() if total is not None}


def told_scores(answers: Iterable[Mapping[int, CorrectiveAnswer]]) -> dict[int, ScoreFigures]:
    """What the clients told in `measured`; `InvalidInput` if they opened the same totals to different numbers."""
    told: dict[int, list[ScoreFigures]] = {}
    for kept in answers:
        for problem, answer in kept.items():
            if answer.figures is not None:
                told.setdefault(problem, []).append(answer.figures)
    for found in told.values():
        check_agree(found, "figures: clients opened the same sums of scores to different numbers")
    return {problem: found[0] for problem, found in told.items()}


def _moved_samples(current: CorrectiveRound, ends: Mapping[int, RoundEnd]) -> int:
    """The number of samples whose dual variables may be others after the round; 0 if the anchor stays."""
    return current.live_samples if any(end.state.anchor.round_id == current.id for end in ends.values()) else 0


def _reached(certificate: Certificate) -> Reached:
    """The certificate as the state of a problem that stands still has it."""
    assert certificate.fit.accuracy is not None, "only classes have several problems"
    return Reached(
        primal=certificate.primal,
        dual=certificate.dual,
        gap=certificate.gap,
        gap_error=certificate.gap_error,
        accuracy=certificate.fit.accuracy,
    )


def _certificates_of(states: Sequence[CorrectiveState], ends: Mapping[int, RoundEnd]) -> list[Certificate] | None:
    """The newest certificate of each problem; None unless every problem under way has one of this round."""
    found = []
    for problem, state in enumerate(states):
        if problem in ends:
            certificate = ends[problem].certificate
        else:
            assert state.reached is not None, "a problem that is not under way stands still"
            figures = asdict(state.reached)
            certificate = Certificate(fit=Fit(accuracy=figures.pop("accuracy")), **figures)
        if certificate is None:
            return None
        found.append(certificate)
    return found


def _certificate_of_run(certificates: Sequence[Certificate]) -> Certificate:
    """The means of P and of D over the problems, and the largest gap; of one problem its certificate itself."""
    if len(certificates) == 1:
        return certificates[0]
    return Certificate(
        primal=sum(one.primal for one in certificates) / len(certificates),
        dual=sum(one.dual for one in certificates) / len(certificates),
        gap=max(one.gap for one in certificates),
        gap_error=max(one.gap_error for one in certificates),
        fit=Fit(),
    )


def _class_figures(names: Sequence[str], certificates: Sequence[Certificate]) -> dict[str, float]:
    """The figures of each class: P, the gap, and the accuracy of telling the class from the rest; and their mean."""
    accuracies = [one.fit.accuracy or 0.0 for one in certificates]
    figures = {CLASS_ACCURACY: sum(accuracies) / len(accuracies)}
    for name, one, accuracy in zip(names, certificates, accuracies, strict=True):
        figures |= {f"primal of {name}": one.primal, f"gap of {name}": one.gap, f"accuracy of {name}": accuracy}
    return figures
