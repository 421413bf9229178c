"""An averaging algorithm that uses everything the rails have, and what its parties have on their books."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.book import AveragingBook, RoundOnRecord
from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.averaging.work import Contribution, Job, State, Update
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.algorithms.settings import Profile
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer
from support.averaging import Averaging
from support.problems import problem

Array = NDArray[np.float64]

DATA = problem(rows=40, columns=6).data


class DriftSettings(AveragingSettings):
    """An algorithm that adds up: every client moves the model by a step that depends on all that came before."""

    profile: ClassVar[Profile] = Profile("drift", ("horizontal", "hybrid"), ("hinge",), ("steps",))
    sparse: bool = False

    @property
    def vectors(self) -> Vectors:
        return Vectors(
            state=(MODEL, "trail"),
            summed=("step",),
            kept=("own",),
            surveyed=("size",),
            reported=("norm",),
            measured=("rows",),
        )


class DriftServer(AveragingServer[DriftSettings]):
    """Tells the mean of the surveyed sizes, weighs clients by their position, and remembers the sum of the norms."""

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        mean = sum(numbers["size"] for numbers in surveys.values()) / len(surveys)
        weights = {client: 0.25 * (1 + self.layout.clients.index(client)) for client in trainers}
        coordinates = None
        if self.settings.sparse:
            rng = np.random.default_rng([self.settings.seed, round_id])
            coordinates = np.sort(rng.choice(len(self.layout.features), size=2, replace=False)).astype(np.int64)
        return Plan(told={"mean": mean}, weights=weights, coordinates=coordinates)

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        norms = self.memory.get("norms", 0.0) + sum(numbers["norm"] for numbers in reports.values())
        return Closing(told={**plan.told, "norms": norms}, memory={"norms": norms})

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        return {"rows": sum(numbers["rows"] for numbers in measured.values())}


class DriftClient(AveragingClient[DriftSettings]):
    def survey(self, state: State) -> Mapping[str, float]:
        return {"size": float(1.0 + np.abs(state[MODEL]).sum())}

    def train(self, state: State, job: Job) -> Contribution:
        own = job.kept["own"] + job.rng.normal(size=len(state[MODEL]))
        step = 0.1 * own / job.told["mean"] - 0.01 * state["trail"]
        return Contribution({"step": step, "own": own}, {"norm": float(np.abs(step).max())})

    def measured_numbers(self, state: State) -> Mapping[str, float]:
        return {"rows": float(len(self.predictions(state)))}

    def apply(self, state: State, update: Update) -> State:
        model = state[MODEL] + update.mean("step", otherwise=np.zeros_like(state[MODEL]))
        return {MODEL: model, "trail": 0.5 * state["trail"] + model / (1.0 + update.told["norms"])}


DRIFT = (DriftSettings, DriftClient, DriftServer)


def drift(*, sparse: bool = False) -> Averaging:
    values: dict[str, object] = {"sparse": sparse, "measure_every": 3}
    return Averaging.of(DRIFT, partition(DATA, grid=(3, 1)), values)


def states(run: Averaging) -> dict[ClientId, dict[str, Array]]:
    """Every client's state after the last entry, with what it kept."""
    return {client: {**state, **run.clients[client]._memory.kept} for client, state in run.states().items()}


def book_of(run: Averaging, client: ClientId) -> AveragingBook:
    book = run.participants[client].transcript.book
    assert isinstance(book, AveragingBook)
    return book


def current_round(run: Averaging, client: ClientId) -> RoundOnRecord:
    current = book_of(run, client).round
    assert current is not None
    return current
