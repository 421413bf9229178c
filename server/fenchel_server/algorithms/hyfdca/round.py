"""A HyFDCA round under way at the server, and its beginning: the choices that go on record."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from fenchel_common.algorithms.hyfdca.messages import Figures, SampleRange
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices, RoundRules
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.participation import due_active, measures_alone
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.hyfdca_records import left_out_to_bytes, round_choices_to_bytes
from fenchel_server.algorithms.certificate import Certificate
from fenchel_server.algorithms.phased import ENDED_HERE, RoundUnderWay, not_there
from fenchel_server.contract import Outcome

MEASURED_ALONE: Final = "this round asked all parties, measured the model and updated no sample"


@dataclass(slots=True, kw_only=True)
class HyfdcaRound(RoundUnderWay):
    """A round under way.

    Attributes
    ----------
    draws
        The samples that each client updates, without clients that update none.
    totals
        The sum of all clients' contributions to the figures.
    changed
        The blocks of samples whose dual variables changed.
    """

    rules: RoundRules
    draws: dict[ClientId, tuple[SampleRange, ...]] = field(default_factory=dict)
    totals: Vector | None = None
    figures: Figures | None = None
    certificate: Certificate | None = None
    ending: tuple[Outcome, str] | None = None
    changed: frozenset[int] = frozenset()
    samples_updated: int = 0

    @property
    def measures_alone(self) -> bool:
        """Whether the round measures the model and updates no sample, and others of the run follow."""
        return measures_alone(self.rules.settings, self.id) and not self.closing

    @property
    def took_part(self) -> tuple[ClientId, ...]:
        """The clients that updated samples or, in a round that only measures, all that were there at its beginning."""
        chosen = self.rules.first_present if self.measures_alone else self.rules.choices.active
        return tuple(client for client in self.rules.clients if client in chosen)

    @property
    def note(self) -> str:
        """What the report says of a round that only measures."""
        return MEASURED_ALONE if self.measures_alone else ""

    def choices_to_bytes(self) -> bytes:
        """The server's choices, for the record with which the round begins."""
        return round_choices_to_bytes(self.rules.choices, self.rules.clients)

    def leave_out(self, failed: Collection[ClientId], void: Collection[int]) -> None:
        """Drops the draws of clients that have failed, and those of blocks whose inner products are given up."""
        self.draws = {
            client: kept
            for client, ranges in self.draws.items()
            if client not in failed and (kept := tuple(part for part in ranges if part.block not in void))
        }

    def left_out_to_bytes(self, failed: Collection[ClientId]) -> bytes:
        """The clients that failed in a phase, for the record with which the phase ends."""
        return left_out_to_bytes(failed, self.rules.clients)


def begun_round(
    round_id: RoundId,
    available: frozenset[ClientId],
    *,
    settings: HyfdcaSettings,
    clients: tuple[ClientId, ...],
    shares: Mapping[ClientId, float],
    proportional: bool,
    closing: bool,
) -> HyfdcaRound:
    """A round at its beginning.

    Parameters
    ----------
    available
        The clients that are there; others than those of the layout do not count.
    shares
        For each client with labels, the fraction of its samples that it updates if it is active.
    """
    there = available.intersection(clients)
    chosen = frozenset[ClientId]() if closing else due_active(settings, clients, round_id)
    active = chosen & there
    choices = RoundChoices(
        available=there,
        active=active,
        closing=closing,
        shares={client: share for client, share in shares.items() if client in active},
        proportional=proportional,
    )
    rules = RoundRules(settings, clients, round_id, choices)
    return HyfdcaRound(
        id=round_id,
        closing=closing,
        present=[client for client in clients if client in rules.first_present],
        absences=not_there((frozenset(clients) if measures_alone(settings, round_id) else chosen) - there),
        rules=rules,
        ending=ENDED_HERE if closing else None,
    )
