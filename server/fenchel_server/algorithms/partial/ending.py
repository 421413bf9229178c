"""The report of a round with some of the parties, and the progress that the records of a run show."""

from collections.abc import Iterable, Sequence

from fenchel_common.algorithms.corrective.pairs import PAIR_PRODUCTS
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.ids import ClientId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.records import ROUND, Record
from fenchel_common.setup import BEFORE_ROUNDS
from fenchel_common.wire.partial import product_choices_from_bytes, round_choices_from_bytes
from fenchel_common.wire.records import record_from_bytes
from fenchel_server.algorithms.certificate import reached_gap, with_certificate
from fenchel_server.algorithms.partial.round import PartialRound
from fenchel_server.algorithms.phased import ENDED_HERE
from fenchel_server.contract import Outcome


def outcome_of(current: PartialRound, *, goal: float | None) -> tuple[Outcome | None, str]:
    """How and why the run ends with a round; None and empty if it continues."""
    reached = None if current.certificate is None else reached_gap(current.certificate, goal)
    return reached or (ENDED_HERE if current.closing else (None, ""))


def round_metrics(
    current: PartialRound,
    contributors: Iterable[ClientId],
    notes: Iterable[str],
    *,
    samples: int,
) -> RoundMetrics:
    """The metrics of a round; a combination moves the dual variables of all samples."""
    there = frozenset(contributors)
    metrics = RoundMetrics(
        round=current.id,
        samples_updated=samples if current.moved else 0,
        participants=tuple(client for client in current.layout.clients if client in there),
        absences=current.absences,
    )
    return with_certificate(metrics, current.certificate, notes)


def decoded(records: Iterable[bytes], clients: Sequence[ClientId]) -> list[Record]:
    return [record_from_bytes(data, clients) for data in records]


def progress_in(records: Iterable[Record], clients: Sequence[ClientId], progress: Progress) -> Progress:
    """The progress of the pairs, as the records say that follow those with the given progress."""
    for record in records:
        phase = record.moment.phase
        if phase == ROUND:
            choices = round_choices_from_bytes(record.choices, clients)
            everybody = choices.participants == frozenset(clients)
            progress = progress.begun(record.moment.round, choices, everybody=everybody)
        elif phase not in BEFORE_ROUNDS:
            whole = phase == PAIR_PRODUCTS and product_choices_from_bytes(record.choices)
            progress = progress.after(phase, [given.party for given in record.given], whole=whole)
    return progress
