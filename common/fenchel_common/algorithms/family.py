"""A family of algorithms, as a value that the rest of the system reads.

A family is all algorithms whose halves exchange the same messages. Each family has one `Family` value in its own
folder; the settings of its algorithms name that value as their `family`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from fenchel_common.clientlayout import ClientLayout
from fenchel_common.layout import FederationLayout

S = TypeVar("S")
"""The settings that the functions of a family read."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The most vectors that a message carries.

    Vectors by sample and by feature have an entry for each block that the party holds; vectors of `numbers` are short.
    A vector by feature has `width` values for each feature.
    """

    by_sample: int = 0
    by_feature: int = 0
    numbers: int = 0
    width: int = 1

    def times(self, count: int) -> Self:
        """The vectors of so many such messages."""
        return replace(
            self,
            by_sample=count * self.by_sample,
            by_feature=count * self.by_feature,
            numbers=count * self.numbers,
        )


@dataclass(frozen=True, slots=True)
class Exchange:
    """The task and the result of a phase: the names of the messages in `proto/`, and the vectors that each carries.

    `inside` names, for each field of bytes as Message.field, the message that its bytes are.
    """

    task: str
    result: str
    task_carries: Carried
    result_carries: Carried
    inside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a run.

    Attributes
    ----------
    phases
        The exchange of each phase of a round.
    preparation
        The message that a party sends before the first round, with one vector by sample; None if there is none.
    state, state_inside
        The message from which a party makes its model when the run ends, and the messages in its fields of bytes, as
        for `Exchange`.
    choices
        The message of the server's choices in the record of each phase that has some; `ROUND` is the beginning of a
        round.
    """

    phases: Mapping[str, Exchange]
    preparation: str | None
    state: str
    state_carries: Carried
    choices: Mapping[str, str]
    state_inside: Mapping[str, str] = field(default_factory=dict)


def _leaks_no_rows(_settings: object, _changes: int | None, _width: int) -> str | None:
    return None


def _unknown_changes(_settings: object, _layout: FederationLayout) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Family(Generic[S]):
    """The properties of a family. Its functions are pure; each takes the settings of one of its algorithms first.

    Attributes
    ----------
    name
        The name of the family's folder in `common`, `server` and `client`.
    messages
        The messages of a run with these settings. Called at both ends, before a body is read or its size is limited.
    ciphertexts
        The number of ciphertexts that a party with this layout makes in a usual round of an encrypted run. Called by
        the party after the layout, to size its pool of nonces.
    row_leak
        The reason, in words, why the server can work out rows in a run at the level `paper`; None if no way is known.
        The arguments are those of `fenchel_common.algorithms.row_leak.row_leak`.
    fewest_changes
        The least number of a party's samples that a round updates; None if `row_leak` does not need it. Called by the
        server when the layout is known.
    bounds_model
        Whether noise can be calibrated for a released model: every model comes with a proof of its distance to the
        optimum, and every party learns how long its whole rows are.
    """

    name: str
    messages: Callable[[S], Messages]
    ciphertexts: Callable[[S, ClientLayout], int]
    row_leak: Callable[[S, int | None, int], str | None] = _leaks_no_rows
    fewest_changes: Callable[[S, FederationLayout], int | None] = _unknown_changes
    bounds_model: bool = False
