"""How a demonstration deals out its rows, and what its report shows."""

from collections.abc import Iterator, Sequence
from io import StringIO

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from fenchel_common.data.heterogeneous import Split
from fenchel_common.errors import FederationFailed, InvalidConfig, InvalidInput
from fenchel_deploy.cli.demonstration import print_report
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions, Report
from fenchel_deploy.running import Event
from support.tables import small_dataset

REPORT: Report = {
    "privacy": "sealed",
    "dataset": "breast_cancer",
    "clients": 3,
    "primal": 0.1,
    "centralized_primal": 0.09,
    "accuracy": 0.97,
    "centralized_accuracy": 0.98,
    "rmse": None,
    "centralized_rmse": None,
    "r2": None,
    "centralized_r2": None,
    "relative_error": 0.1,
    "gap": None,
    "certified": False,
    "lambda": 0.01,
    "rounds": 6,
    "rtc_per_round": 1,
    "seconds": {},
    "round_seconds": {},
    "bytes": {},
    "clients_detail": {},
    "server_saw": {},
    "status": "completed",
    "reason": "done",
}


class Unfit:
    """A federation whose run fails for the data of one party."""

    def events(self) -> Iterator[Event]:
        yield {"event": "ended", "outcome": None, "status": "failed", "reason": "no common sample"}

    def wait(self) -> dict[str, int]:
        return {"server": 1, "hospital-1": 0, "hospital-2": 7}

    def model(self, features: Sequence[str]) -> NDArray[np.float64]:
        raise AssertionError(features)

    def log(self, name: str) -> str:
        return f"{name}: attached\nerror: what to mend at {name}\n"


def test_a_demonstration_that_fails_tells_what_each_unfit_party_was_told() -> None:
    demonstration = Demonstration.of(small_dataset(20, 2), DemonstrationOptions(grid=(1, 2)))
    with pytest.raises(FederationFailed, match="did not finish: no common sample") as caught:
        demonstration.follow(Unfit(), lambda _: None)
    assert str(caught.value).endswith("hospital-2: error: what to mend at hospital-2")
    assert "at hospital-1" not in str(caught.value)


def positives(split: str) -> tuple[list[float], float]:
    """The fraction of positive labels of each party, and the centralized optimum."""
    demonstration = Demonstration.prepare(
        DemonstrationOptions(algorithm="scaffpd", loss="logistic", grid=(5, 1), split=Split.parse(split))
    )
    labels = [shard.y for shard in demonstration.shards.values() if shard.y is not None]
    assert sum(len(own) for own in labels) == len(demonstration.dataset.y)
    return [float((own > 0.0).mean()) for own in labels], demonstration.problems.solved().primal


def test_a_dirichlet_split_makes_parties_unlike_on_the_same_problem() -> None:
    (alike, optimum), (unlike, same) = positives("even"), positives("dirichlet:0.3")
    assert np.ptp(alike) < 0.25
    assert np.ptp(unlike) > 0.5
    assert optimum == same


def test_a_dirichlet_split_needs_parties_of_whole_rows() -> None:
    with pytest.raises(InvalidConfig, match="split: this one deals out whole rows"):
        DemonstrationOptions(grid=(2, 2), split=Split(0.1)).check()
    DemonstrationOptions(grid=(2, 1), split=Split(0.1)).check()


@pytest.mark.parametrize("text", ["", "even:1", "dirichlet", "dirichlet:0", "dirichlet:inf", "dirichlet:nan", "zipf:1"])
def test_other_splits_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="neither even, stratified, nor dirichlet:ALPHA"):
        Split.parse(text)


def test_the_table_has_the_figures_of_the_algorithm() -> None:
    console = Console(file=StringIO(), width=100)
    print_report(console, REPORT | {"figures": {"violations": 4.0, "worst_20_accuracy": 0.71875, "bound": "inf"}})
    assert isinstance(console.file, StringIO)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.file.getvalue().splitlines()]
    assert ["violations", "4", ""] in rows
    assert ["worst 20 accuracy", "0.71875", ""] in rows
    assert ["bound", "inf", ""] in rows
    print_report(console, REPORT)
