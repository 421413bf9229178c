"""What the server gets of the final model: what each party's own signed roster lets it have, and no more."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.privatefiles import write_private
from fenchel_client.release import released_weights
from fenchel_client.task import Task
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.leakage import Direction, Ledger, Sight, Visibility
from fenchel_common.model import find_model
from fenchel_common.release import ReleaseNoise
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, INTRODUCE, ModelPart
from fenchel_common.wire.setup import (
    model_part_from_bytes,
    model_part_to_bytes,
    phase_result_from_bytes,
    phase_result_to_bytes,
    terms_to_bytes,
)
from fenchel_server.release import Release
from fenchel_server.results import write_model
from fenchel_server.store import RunStatus
from fenchel_server.store.base import WITH_MODEL
from support.federation import InProcessFederation
from support.layouts import A, B, client_layout
from support.records import RUN
from support.tables import named_shards, small_dataset

DATASET = small_dataset(40, 4)
LONGEST = float(np.linalg.norm(np.asarray(DATASET.X), axis=1).max())
RELEASED = Sight("ModelRelease.weights", Visibility.AGGREGATE, Visibility.AGGREGATE)

Array = NDArray[np.float64]


def config(**changes: Any) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "settings": {"lambda": 0.5, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0, "wait_s": 0.1, "deadline_s": 0.1},
        "stop": {"gap": 1e-3, "rounds": 20},
    }
    return RunConfig.from_mapping(values | changes)


def noisy(*, row_bound: float = LONGEST, **changes: Any) -> RunConfig:
    return config(release={"epsilon": 1.0, "delta": 1e-5, "row_bound": row_bound}, **changes)


def federation(
    directory: Path, terms: RunConfig, *, grid: tuple[int, int] = (1, 2), released: bool = True
) -> InProcessFederation:
    shards = named_shards(DATASET, grid=grid)
    return InProcessFederation(directory, shards, terms, release_model_to_server=released)


def kept_by(party: Path) -> tuple[list[str], Array]:
    kept = find_model(party)
    return list(kept.names), kept.weights


def names_of(directory: Path) -> dict[str, str]:
    """The names of all features by their pseudonyms, from the parties' own files."""
    names: dict[str, str] = {}
    for party in ("p1", "p2"):
        with (directory / party / f"{RUN}.features.csv").open(newline="") as file:
            names |= {row["pseudonym"]: row["feature"] for row in csv.DictReader(file)}
    return names


def exact_model(directory: Path, pseudonyms: Sequence[str]) -> Array:
    """The weights that the parties keep, in the order of a released model."""
    weights: dict[str, float] = {}
    for party in ("p1", "p2"):
        weights |= dict(zip(*kept_by(directory / party), strict=True))
    names = names_of(directory)
    return np.array([weights[names[pseudonym]] for pseudonym in pseudonyms])


def outcome(run: InProcessFederation) -> dict[str, Any]:
    return dict(json.loads(run.store.run(RUN).outcome or ""))


def released_values(run: InProcessFederation) -> int:
    seen = Ledger.from_json(run.store.run(RUN).seen)
    return sum(seen.tally(party, Direction.UP)[RELEASED] for party in run.parties)


@pytest.mark.parametrize(
    ("grid", "terms"),
    [
        ((2, 1), config()),
        ((1, 2), config(settings={"lambda": 0.5, "local": "paper"}, stop={"gap": None, "rounds": 2})),
        ((2, 1), config(algorithm="fedavg", settings={"lambda": 0.5}, stop={"rounds": 2})),
    ],
    ids=["corrective, same features", "paper, other features", "fedavg, same features"],
)
def test_a_roster_that_releases_the_model_gives_the_server_exactly_what_the_parties_have(
    tmp_path: Path, grid: tuple[int, int], terms: RunConfig
) -> None:
    run = federation(tmp_path, terms, grid=grid)
    assert run.drive().status is RunStatus.COMPLETED
    (release,) = run.releases
    assert release.weights is not None
    assert np.abs(release.weights).max() > 1e-3
    assert np.array_equal(release.weights, exact_model(tmp_path, release.features))
    assert sorted(names_of(tmp_path)[pseudonym] for pseudonym in release.features) == sorted(DATASET.features)
    assert repr(float(release.weights[0])) not in repr(release)
    assert release.certificate.gap == outcome(run)["certificate"]["gap"]
    assert outcome(run)["release"] == {"whole": True, "reason": "", "noise": None}
    assert released_values(run) == sum(len(kept_by(tmp_path / party)[0]) for party in run.parties)


def test_a_server_that_would_have_the_model_gets_nothing_from_parties_whose_roster_keeps_it(tmp_path: Path) -> None:
    """Nothing that a task can hold makes a party answer with weights: the server's own roster says that it may."""
    run = federation(tmp_path, config(), released=False)
    told = federation(tmp_path / "server", config(), released=True)
    run.roster = told.roster
    assert run.drive().status is RunStatus.COMPLETED
    assert run.releases == []
    assert outcome(run)["release"]["reason"] == "no party gave the weights of 4 features"
    assert released_values(run) == 0
    assert not list(tmp_path.glob("p*/*.release"))


@dataclass
class NoisyRun:
    """A run whose released model is noisy, with everything that crossed between the parties and the server."""

    federation: InProcessFederation
    release: Release
    noise: ReleaseNoise
    messages: list[tuple[ClientId, Task, bytes]]
    secrets: dict[ClientId, bytes]
    """What each party had in `RUN.run` when it was told of the end."""

    def run_file(self, name: ClientId) -> Path:
        return self.federation.directory / name / f"{RUN}.run"


@pytest.fixture(scope="module", params=[(2, 1), (1, 2)], ids=["same features", "other features"])
def noisy_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NoisyRun:
    run = federation(tmp_path_factory.mktemp("noisy"), noisy(), grid=request.param)
    messages: list[tuple[ClientId, Task, bytes]] = []
    secrets: dict[ClientId, bytes] = {}

    def recording(name: ClientId, handle: Callable[[Task], bytes]) -> Callable[[Task], bytes]:
        def record(task: Task) -> bytes:
            if task.phase == FINISH:
                secrets[name] = (run.directory / name / f"{RUN}.run").read_bytes()
            answer = phase_result_from_bytes(result := handle(task))[0]
            messages.append((name, task, answer))
            return result

        return record

    for name, party in run.parties.items():
        run.transport.handlers[name] = recording(name, party.handle)
    assert run.drive().status is RunStatus.COMPLETED
    (release,) = run.releases
    assert release.noise is not None
    return NoisyRun(run, release, release.noise, messages, secrets)


def test_a_noisy_model_comes_once_and_the_parties_keep_the_exact_one(noisy_run: NoisyRun) -> None:
    exact = exact_model(noisy_run.federation.directory, noisy_run.release.features)
    assert noisy_run.release.weights is not None
    added = noisy_run.release.weights - exact
    assert (added != 0.0).all()
    assert np.abs(added).max() < 6 * noisy_run.noise.sigma
    assert released_values(noisy_run.federation) == len(DATASET.features), "each weight from its first holder alone"
    seen = b"".join(task.body + answer for _, task, answer in noisy_run.messages)
    assert not any(weight.tobytes() in seen for weight in exact)


def test_what_the_noise_promises_is_on_record_and_no_exact_figure_stands_beside_the_noisy_model(
    noisy_run: NoisyRun, tmp_path: Path
) -> None:
    """P, D and gap carry no noise, and would tell more than it allows."""
    promised = outcome(noisy_run.federation)["release"]["noise"]
    assert (promised["epsilon"], promised["delta"], promised["sigma"]) == (1.0, 1e-5, noisy_run.noise.sigma)
    with np.load(write_model(tmp_path, RUN, noisy_run.release)) as written:
        assert set(written) == {"features", "weights", "epsilon", "delta", "row_bound", "gap", "sensitivity", "sigma"}
        assert float(written["gap"]) == 1e-3, "the goal, not what was reached"


def test_a_party_that_is_told_of_the_end_again_gives_the_same_answer(noisy_run: NoisyRun) -> None:
    """A server that was killed in the last phase asks again, and noise that was drawn twice could be averaged away."""
    last = [message for message in noisy_run.messages if message[1].phase == FINISH]
    given = [answer for _, _, answer in last]
    assert len(given) == 2
    assert any(given)
    again = [noisy_run.federation.parties[name].handle(task) for name, task, answer in last if answer]
    assert [phase_result_from_bytes(result)[0] for result in again] == [answer for answer in given if answer]


def test_a_party_that_was_killed_before_it_deleted_the_key_deletes_it_when_it_is_told_again(
    noisy_run: NoisyRun,
) -> None:
    told = [message for message in noisy_run.messages if message[1].phase == FINISH and message[2]]
    assert told
    for name, task, answer in told:
        assert not noisy_run.run_file(name).exists()
        write_private(noisy_run.run_file(name), noisy_run.secrets[name])
        assert phase_result_from_bytes(noisy_run.federation.parties[name].handle(task))[0] == answer
        assert not noisy_run.run_file(name).exists()
        with pytest.raises(Refusal, match="no key of run run-1"):
            noisy_run.federation.parties[name].handle(replace(task, phase="local_dual"))


@pytest.mark.parametrize("grid", [(2, 1), (1, 2)], ids=["whole rows", "parts of rows"])
def test_no_run_goes_on_whose_rows_are_longer_than_its_noise_allows_for(tmp_path: Path, grid: tuple[int, int]) -> None:
    parts = [np.linalg.norm(np.asarray(shard.X), axis=1).max() for shard in named_shards(DATASET, grid=grid).values()]
    bound = 0.99 * LONGEST
    assert grid == (2, 1) or max(parts) < bound, "no party alone could tell"
    run = federation(tmp_path, noisy(row_bound=bound), grid=grid)
    ending = run.drive()
    if grid == (2, 1):
        assert ending.status is RunStatus.STOPPED
        assert "it has rows longer than release.row_bound" in ending.reason
    else:
        assert ending.status is RunStatus.FAILED
        assert "it cannot use what it opened" in ending.reason
    assert run.releases == []
    first = next(name for name in run.parties if name in ending.reason)
    end = ModelPart(b"", primal=1.0, dual=1.0, gap=0.0)
    with pytest.raises(Refusal, match="longer than release"):
        run.parties[first].handle(Task(RUN, RoundId(1), FINISH, model_part_to_bytes(end)))
    assert not list(tmp_path.glob("p*/*.release"))


def test_a_model_too_far_from_the_optimum_for_its_noise_stays_with_the_parties(tmp_path: Path) -> None:
    run = federation(tmp_path, noisy(stop={"gap": 1e-9, "rounds": 2}))
    assert run.drive().status is RunStatus.EXHAUSTED
    assert run.releases == []
    assert outcome(run)["release"]["reason"].startswith("the gap is not proven to be at most 1e-09")
    assert released_values(run) == 0
    assert sum(len(kept_by(tmp_path / party)[0]) for party in run.parties) == 4


@pytest.mark.parametrize("figures", [(np.nan, 1.0, 0.0), (1.0, -np.inf, 0.0), (1.0, 1.0, np.nan)])
def test_a_certificate_that_is_no_number_is_refused(figures: tuple[float, float, float]) -> None:
    part = ModelPart(b"", *figures)
    with pytest.raises(InvalidInput, match="primal, dual, gap: must be finite"):
        model_part_from_bytes(model_part_to_bytes(part))


@pytest.mark.parametrize(("gap", "given"), [(1e-3, 2), (1.1e-3, 0), (None, 0), (np.nan, 0)])
def test_weights_go_out_only_with_a_gap_that_the_noise_allows_for(gap: float | None, given: int) -> None:
    layout = client_layout({0: 1}, slots=30, feature_blocks={0: np.array([0, 1])})
    noise = ReleaseNoise(1.0, 1e-5, 1.0, gap=1e-3, sensitivity=1.0, sigma=1.0)
    assert len(released_weights(np.zeros(2), gap=gap, layout=layout, noise=noise)) == given


def test_an_answer_that_cannot_be_right_spoils_the_release_and_not_the_run(tmp_path: Path) -> None:
    run = federation(tmp_path, config(), grid=(2, 1))
    second = ClientId("p2")
    honest = run.parties[second].handle

    def lie(task: Task) -> bytes:
        body, spent = phase_result_from_bytes(honest(task))
        return phase_result_to_bytes(body[:-8] if task.phase == FINISH else body, spent)

    run.transport.handlers[second] = lie
    assert run.drive().status is RunStatus.COMPLETED
    assert run.releases == []
    assert outcome(run)["release"]["reason"].startswith("p2: ")


def test_a_feature_whose_only_holder_is_gone_leaves_the_model_incomplete(tmp_path: Path) -> None:
    run = federation(tmp_path, config())
    run.transport.absent = lambda phase, client: "gone" if phase.phase == FINISH and client == "p2" else None
    assert run.drive().status is RunStatus.COMPLETED
    assert run.releases == []
    assert outcome(run)["release"]["reason"] == "no party gave the weights of 2 features"


def test_with_noise_each_weight_is_that_of_its_first_holder_by_the_partys_own_layout() -> None:
    layout = client_layout(
        {0: 1},
        slots=30,
        party=B,
        feature_blocks={0: np.array([1]), 2: np.array([0, 2])},
        feature_holders={0: (A, B)},
    )
    noise = ReleaseNoise(1.0, 1e-5, 1.0, gap=1e-3, sensitivity=1.0, sigma=2.0**-20)
    given = released_weights(np.array([1.0, 2.0, 3.0]), gap=0.0, layout=layout, noise=noise)
    np.testing.assert_allclose(given, [1.0, 3.0], atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"lambda": 0.01, "local": "corrective"}},
        {"settings": {"lambda": 0.01, "local": "paper"}},
        {"algorithm": "fedavg", "settings": {"lambda": 0.01}},
    ],
    ids=["corrective", "paper", "fedavg"],
)
def test_a_server_that_ends_a_run_before_its_stopping_rule_is_met_gets_no_model(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """A model of an early round could show single rows; the parties keep it, and say nothing of it."""
    gap = None if "algorithm" in changes else 1e-9
    agreed = terms_to_bytes(config(stop={"gap": gap, "rounds": 20}, **changes))
    run = federation(tmp_path, config(stop={"gap": gap, "rounds": 1}, **changes))

    def with_agreed_terms(handle: Callable[[Task], bytes]) -> Callable[[Task], bytes]:
        return lambda task: handle(replace(task, body=agreed) if task.phase == INTRODUCE else task)

    for name, party in run.parties.items():
        run.transport.handlers[name] = with_agreed_terms(party.handle)
    assert run.drive().status in WITH_MODEL
    assert run.releases == []
    assert outcome(run)["release"]["reason"] == "no party gave the weights of 4 features"
    assert released_values(run) == 0
    assert not list(tmp_path.glob("p*/*.release"))
    assert sum(len(kept_by(tmp_path / party)[0]) for party in run.parties) == 4
