"""A party's half of an algorithm, together with the records of its run: whole tasks go in, whole results come out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.base import AlgorithmClient, KnowsGap, KnowsModel, KnowsScores
from fenchel_client.crypto.derivedkeys import confirmations_key, pads_key
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_client.transcript import Transcript
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.ids import RoundId, RunId
from fenchel_common.records import Moment
from fenchel_common.scoresums import ScoreFigures
from fenchel_common.setup import Company
from fenchel_common.wire.records import round_result_to_bytes, round_task_from_bytes


@dataclass(frozen=True, slots=True)
class Participant:
    """Takes the records of a task, lets the algorithm answer under a fresh stamp, and confirms the records.

    `seal` is the one with which `algorithm` was made.
    """

    algorithm: AlgorithmClient
    transcript: Transcript[Any]
    seal: Seal

    @classmethod
    def of(
        cls,
        make: Callable[[Seal], AlgorithmClient],
        *,
        layout: ClientLayout,
        tag_secret: bytes,
        run: RunId,
        view: bytes,
        seed: int,
        attempt: int,
        passed: tuple[RoundId, bytes] | None = None,
        make_seal: Callable[[Pads], Seal] = Seal,
    ) -> "Participant":
        """The half that `make` gives, before the first record.

        Parameters
        ----------
        tag_secret
            From which the parties derive the keys of pads and confirmations.
        view
            The view before the first record.
        attempt
            The attempt of the set-up, while it is under way, else 0.
        passed
            As for `Transcript`.
        """
        seal = make_seal(Pads(pads_key(tag_secret, run)))
        algorithm = make(seal)
        transcript = Transcript(
            view,
            algorithm.first_book(),
            party=layout.party,
            clients=layout.clients,
            key=confirmations_key(tag_secret, run),
            seed=seed,
            attempt=attempt,
            passed=passed,
        )
        return cls(algorithm, transcript, seal)

    def contribution(self, moment: Moment, make: Callable[[], bytes]) -> bytes:
        """The message that `make` gives, under a fresh stamp of this phase and with this party's confirmation."""
        stamp = self.transcript.answering(moment)
        self.seal.stamp = stamp
        body = make()
        return round_result_to_bytes(body, nonce=stamp.nonce, confirmation=self.transcript.confirmation(stamp))

    def answer(self, moment: Moment, task: bytes, *, admit: Callable[[Company], None] = lambda _company: None) -> bytes:
        """The result of a task of a round; raises as `AlgorithmClient.answer` and `Transcript.take` do.

        `admit` raises `Refusal` for a company in which the party does not contribute; it is called before anything of
        the task is opened.
        """
        body = self._body(task)
        company = self.transcript.book.company(moment.phase)
        if company is not None:
            admit(company)
        return self.contribution(moment, lambda: self.algorithm.answer(moment.phase, body, self.transcript.book))

    def final_model(self, state: bytes) -> NDArray[np.float64]:
        """As for `AlgorithmClient.final_model`, from the state with its records."""
        return self.algorithm.final_model(self._body(state), self.transcript.book)

    def certified_gap(self) -> float | None:
        """P − D of the model on record, if this party computed it; None for an algorithm without certificates."""
        if not isinstance(self.algorithm, KnowsGap):
            return None
        return self.algorithm.certified_gap(self.transcript.book)

    def last_gap(self) -> float | None:
        """The last P − D that this party computed, on record or not; None if it computed none."""
        return self.algorithm.last_gap if isinstance(self.algorithm, KnowsGap) else None

    def own_scores(self) -> ScoreFigures | None:
        """How well the final model predicts this party's own labels; None if it cannot know."""
        return self.algorithm.own_scores if isinstance(self.algorithm, KnowsScores) else None

    def reached(self, gap: float | None) -> bool:
        """Whether this party has computed a P − D of at most `gap`, so that the run is about to end."""
        found = self.last_gap()
        return gap is not None and found is not None and found <= gap

    def saw_the_model(self) -> bool:
        """Whether this party itself opened figures of all parties about the model that is now on record."""
        if isinstance(self.algorithm, KnowsModel):
            return self.algorithm.measured(self.transcript.book)
        return self.certified_gap() is not None

    def _body(self, task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        self.transcript.take(first, records)
        return body
