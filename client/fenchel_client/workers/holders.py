"""The client's side of the workers that hold rows: it asks them, and gives a new process what a lost one had."""

import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_client.workers.nodesecret import NodeSecret
from fenchel_client.workers.questions import ID_BYTES, Arrays, opened_answer, sealed_question
from fenchel_client.workers.rowholder import LOST, SLOTS
from fenchel_common.errors import Refusal

TRIES: Final = 8
"""How often a question is asked of a worker whose process is lost again and again."""


class Link(Protocol):
    """The way to one worker."""

    def ask(self, question: bytes) -> Callable[[], bytes]:
        """Gives the question to the worker; what it returns waits for the answer, and raises `Refusal` if none comes.

        A question may be answered twice, by a process that is lost and by the one in its place.
        """
        ...


class Holder:
    """One worker, and the questions whose results it keeps."""

    def __init__(self, link: Link, secret: NodeSecret) -> None:
        self._link, self._secret = link, secret
        self._made: dict[str, tuple[str, bytes]] = {}
        """By slot the mark of what is there, and the question that made it."""

    def ask(
        self, work: str, arrays: Mapping[str, Any] = MappingProxyType({}), *, slot: str | None = None
    ) -> Callable[[], Arrays]:
        """Begins the work; what it returns waits for its result.

        The work needs all that was made so far; the result of work with a `slot` takes the place of that and of later
        slots. `InvalidInput` if the worker says that the work cannot be done.
        """
        if slot is not None:
            for later in SLOTS[SLOTS.index(slot) :]:
                self._made.pop(later, None)
        mark = secrets.token_hex(ID_BYTES)
        needs = np.array([made for made, _ in self._made.values()], dtype=np.str_)
        told: dict[str, NDArray[Any]] = {name: np.asarray(value) for name, value in arrays.items()}
        told |= {"work": np.array(work), "needs": needs}
        if slot is not None:
            told |= {"slot": np.array(slot), "mark": np.array(mark)}
        question = sealed_question(told, self._secret)
        wait = self._link.ask(question)

        def result() -> Arrays:
            found = opened_answer(self._answered(question, wait), question, self._secret)
            if slot is not None:
                self._made[slot] = mark, question
            return found

        return result

    def _answered(self, question: bytes, wait: Callable[[], bytes]) -> bytes:
        answer = wait()
        for _ in range(TRIES):
            if answer != LOST:
                return answer
            for _, made_by in self._made.values():
                self._link.ask(made_by)()
            answer = self._link.ask(question)()
        raise Refusal("a worker's process is lost again and again", public_reason="it cannot reach its rows")
