"""Figures of scores as messages; the reader raises `InvalidInput` with the name of the wrong field."""

from dataclasses import asdict

from fenchel.v1 import scores_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.scoresums import CALIBRATION_ROWS, CalibrationRow, ScoreFigures
from fenchel_common.wire.scope import finite_number

_OPTIONAL = ("accuracy", "auc", "auc_error", "log_loss", "brier", "rmse", "r2", "classes_accuracy")


def score_figures_to_proto(figures: ScoreFigures | None) -> scores_pb2.ScoreFigures | None:
    if figures is None:
        return None
    return scores_pb2.ScoreFigures(
        samples=figures.samples,
        calibration=[scores_pb2.CalibrationRow(**asdict(row)) for row in figures.calibration],
        **{name: getattr(figures, name) for name in _OPTIONAL},
    )


def score_figures_from_proto(message: scores_pb2.ScoreFigures, field: str) -> ScoreFigures:
    given = {present.name for present, _ in message.ListFields()}
    numbers = {name: finite_number(getattr(message, name), f"{field}.{name}") for name in _OPTIONAL if name in given}
    if len(message.calibration) > CALIBRATION_ROWS:
        raise InvalidInput(f"{field}.calibration: has more than {CALIBRATION_ROWS} rows")
    rows = tuple(
        CalibrationRow(
            row.samples,
            finite_number(row.predicted, f"{field}.predicted"),
            finite_number(row.observed, f"{field}.observed"),
        )
        for row in message.calibration
    )
    return ScoreFigures(samples=message.samples, calibration=rows, **numbers)
