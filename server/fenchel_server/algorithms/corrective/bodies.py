"""The bytes of a corrective run's messages, records and snapshots, for one problem or for those of several classes.

A run of one problem has the messages of that problem. A run of several classes has messages with one part for each
problem under way.
"""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.corrective.messages import PrimalChoices, RoundChoices
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_classes import (
    ClassRoundChoices,
    class_primal_choices_to_bytes,
    class_results_from_bytes,
    class_round_choices_to_bytes,
    class_tasks_to_bytes,
)
from fenchel_common.wire.corrective_snapshot import (
    CorrectiveSnapshot,
    class_snapshot_from_bytes,
    class_snapshot_to_bytes,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from fenchel_common.wire.parsing import Body


class Bodies:
    """The bytes of one run; `clients` are the parties in roster order."""

    def __init__(self, settings: CorrectiveSettings, clients: Sequence[ClientId]) -> None:
        self._several = bool(settings.classes)
        self._privacy = settings.privacy
        self._clients = clients

    def tasks(self, tasks: Sequence[bytes]) -> bytes:
        """A client's tasks of all problems under way, or its models of all problems."""
        return class_tasks_to_bytes(tasks) if self._several else tasks[0]

    def results(self, body: Body, problems: int) -> tuple[Body, ...]:
        """A client's result of each of so many problems; raises `InvalidInput` if there are others."""
        return class_results_from_bytes(body, problems) if self._several else (body,)

    def round_choices(self, under_way: tuple[int, ...], choices: RoundChoices) -> bytes:
        """The choices for a round, which are the same for all problems under way."""
        encoded = wire.round_choices_to_bytes(choices, self._clients)
        return class_round_choices_to_bytes(ClassRoundChoices(under_way, encoded)) if self._several else encoded

    def primal_choices(self, choices: Mapping[int, PrimalChoices]) -> bytes:
        """The choices after `primal`, for each problem under way."""
        return class_primal_choices_to_bytes(choices) if self._several else wire.primal_choices_to_bytes(choices[0])

    def snapshot(self, problems: Sequence[CorrectiveSnapshot]) -> bytes:
        return class_snapshot_to_bytes(problems) if self._several else snapshot_to_bytes(problems[0])

    def saved(self, data: bytes, key: RunKey) -> list[CorrectiveSnapshot]:
        """The snapshots of all problems that `snapshot` wrote; raises `StateDamaged` for any other bytes."""
        if self._several:
            return class_snapshot_from_bytes(data, key, privacy=self._privacy)
        return [snapshot_from_bytes(data, key, privacy=self._privacy)]
