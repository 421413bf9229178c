"""The server's choices for a round, and what follows from them: the same at the server and at every party.

The choices are in the record with which the round begins. Whoever knows them, the settings of the run and its own
layout knows which samples are drawn, which blocks are asked for, and who gives which contributions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.hyfdca.draw import draw_samples
from fenchel_common.algorithms.hyfdca.messages import SampleRange
from fenchel_common.algorithms.hyfdca.pace import follows_dual
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.participation import due_active, training_round
from fenchel_common.algorithms.settings import is_due
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId

RESTATE_AFTER: Final = 64
"""Dual variables of a block that are a sum of so many contributions are stated anew, as one."""


@dataclass(frozen=True, slots=True)
class RoundChoices:
    """The server's choices for a round.

    Attributes
    ----------
    available
        The clients that are there when the round begins.
    active
        Those of them that update samples.
    closing
        Whether the round certifies the model as it is and changes nothing.
    shares
        For each active client with labels, the fraction of its samples that it updates: above 0 and at most 1.
    proportional
        Whether steps are scaled by c_k = N_k/N; the same in all rounds of a run.
    """

    available: frozenset[ClientId]
    active: frozenset[ClientId]
    closing: bool
    shares: Mapping[ClientId, float]
    proportional: bool


@dataclass(frozen=True, slots=True)
class RoundRules:
    """The rules of one round of a run; `clients` are all parties in roster order."""

    settings: HyfdcaSettings
    clients: tuple[ClientId, ...]
    round_id: RoundId
    choices: RoundChoices

    def check_choices(self) -> None:
        """Raises `InvalidInput` if the settings set the round otherwise than the server's choices say."""
        if self.round_id > self.settings.stop.rounds and not self.choices.closing:
            raise InvalidInput("closing: a round after the last one that the settings allow must be a closing round")
        if self.choices.active != self.due_active & self.choices.available:
            raise InvalidInput("active: is not what the rule of participation gives for this round")

    @property
    def due_active(self) -> frozenset[ClientId]:
        """The clients that shall update samples, whether or not they are available; none in a closing round."""
        return frozenset() if self.choices.closing else due_active(self.settings, self.clients, self.round_id)

    @property
    def training_round(self) -> RoundId:
        """The number of this round among those in which samples are updated."""
        return training_round(self.settings, self.round_id)

    @property
    def certifying(self) -> bool:
        """Whether the round certifies the model that enters it."""
        return self.choices.closing or is_due(self.round_id, self.settings.certificate_every)

    @property
    def first_present(self) -> frozenset[ClientId]:
        """The clients that take part when the round begins: the active ones, all available ones for a certificate."""
        return self.choices.available if self.certifying else self.choices.active

    def is_complete(self, present: Collection[ClientId]) -> bool:
        """Whether no client is missing among those that are `present`."""
        return len(present) == len(self.clients)

    def is_done(self, contributors: Collection[ClientId], present: Collection[ClientId]) -> bool:
        """Whether `local_dual` had the steps of all clients that shall update samples, and no client has failed.

        If any client fails, others may update fewer samples than the rule of participation gives.
        """
        stepped = self.choices.shares.keys() <= set(contributors)
        return not self.choices.closing and stepped and self.due_active | self.first_present <= set(present)

    def asks_drawn_blocks_alone(self, present: Collection[ClientId]) -> bool:
        """Whether `inner_product` asks for drawn blocks alone, and not for all shared blocks.

        In a complete round nobody leaves who would have to leave inner products of all blocks behind.
        """
        everybody = self.settings.participation_rule.kind == "all" and self.is_complete(present)
        return everybody and not self.certifying

    def asks_figures(self, present: Collection[ClientId]) -> bool:
        """Whether all clients give contributions to the figures in `local_dual`.

        They do if nobody is missing: then w = w(α), because all clients out of date have synced.
        """
        return (self.certifying or follows_dual(self.settings)) and self.is_complete(present)

    def restates(self, terms: int) -> bool:
        """Whether dual variables that are a sum of so many contributions are stated anew in `local_dual`.

        The first label holder of their block that is present gives them as they entered the round.
        """
        return terms >= RESTATE_AFTER and not self.choices.closing

    def divisor(self, label_holders: Collection[ClientId]) -> int:
        """|B_n| of a block with these label holders; only active ones count if sets of clients take turns."""
        if self.settings.participation_rule.kind == "cyclic":
            return sum(client in self.choices.active for client in label_holders)
        return len(label_holders)

    def drawn(self, client: ClientId, cohort: Mapping[int, int]) -> tuple[SampleRange, ...]:
        """The samples of a cohort that one of its holders updates; `cohort` has the size of each block, by id."""
        if client not in self.choices.shares:
            return ()
        return draw_samples(
            cohort,
            self.choices.shares[client],
            seed=self.settings.seed,
            round_id=self.round_id,
            client_index=self.clients.index(client),
        )
