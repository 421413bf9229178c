"""What a round of each algorithm costs in each setting: Tables 6 to 8 and Figure 4 of the HyFDCA paper.

Every setting is measured with all its parties in one process, one after another, with every ciphertext operation
executed; or on a sample of the parties or samples, where the options say so. In the column `share` is the part that was
executed; the rest is counted. Settings of few parties are measured with real processes too, over a relay that delays
messages by the latencies of the paper.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_deploy.papers.algorithms import (
    ALGORITHMS,
    FEDAVG,
    HYFDCA,
    HYFEM,
    OURS,
    TITLES,
    metered,
    parsed_settings,
    settings_of,
    tuned_steps,
)
from fenchel_deploy.papers.definitions import SettingPlan
from fenchel_deploy.papers.journal import Cell, ReadRow, Row
from fenchel_deploy.papers.metering import RoundCost
from fenchel_deploy.papers.problems import Problem
from fenchel_deploy.papers.processes import ProcessCost, measured_by_processes
from fenchel_deploy.papers.splits import QUADRANTS
from fenchel_deploy.papers.work import Chart, Panel, Series, Table, Unit, Work
from fenchel_deploy.wan import PROFILES_S

ENCRYPT_S: Final = 0.018882
DECRYPT_S: Final = 0.018865
"""Seconds for one value, by which the paper estimated encryption (its section 3.1)."""
PRINTED_TRIPS: Final = {HYFDCA: 4.5, FEDAVG: 1.0, HYFEM: 1.0}
"""Round trips of an iteration, by which the paper estimated latency (section 7.3 of its supplement)."""
PASSES: Final = 4
ONE_PROCESS: Final = "one process"
PROCESSES: Final = "processes"
MIDDLE: Final = "us-singapore"


class Costs:
    """Costs of a round.

    Options: `most_parties` and `most_rows` bound the parties and the samples of a measurement in one process. The
    settings with the labels `process_settings` are measured by processes too, with the algorithms `by_processes` and
    the networks `latencies`.
    """

    columns = (
        "setting", "algorithm", "how", "latency_s", "share", "parties_run", "h", "rounds_run", "trips",
        "compute_s", "encryption_s", "server_s", "wire_s", "wait_s", "iteration_s", "encrypted_values",
        "decrypted_values", "sent_bytes", "paper_rule_s", "longest_rule_s", "printed_compute_s", "printed_encryption_s",
        "printed_iteration_s", "took_s",
    )  # fmt: skip

    def units(self, work: Work) -> list[Unit]:
        settings, options = work.experiment.settings, work.experiment.options
        return [
            *(
                self._in_one_process(work, setting, algorithm)
                for setting in settings
                for algorithm in work.experiment.algorithms
            ),
            *(
                self._by_processes(work, setting, algorithm, profile)
                for setting in settings
                if setting.label in options.get("process_settings", [])
                for algorithm in options.get("by_processes", [HYFDCA, OURS])
                for profile in options.get("latencies", list(PROFILES_S))
            ),
        ]

    def _in_one_process(self, work: Work, setting: SettingPlan, algorithm: str) -> Unit:
        def measure() -> list[Row]:
            began = time.monotonic()
            cost, sample, steps = round_cost(work, setting, algorithm)
            took_s = time.monotonic() - began
            return [
                _row(setting, algorithm, steps, ONE_PROCESS, latency_s)
                | _figures(cost, latency_s)
                | {"share": sample.share, "parties_run": len(sample.shards), "took_s": took_s}
                | {"longest_rule_s": longest_rule_s(sample) if algorithm == HYFDCA else None}
                | {"rounds_run": cost_rounds(work), "wire_s": cost.trips * latency_s, "wait_s": 0.0}
                for latency_s in PROFILES_S.values()
            ]

        return Unit(f"{setting.label} / {algorithm} / {ONE_PROCESS}", measure)

    def _by_processes(self, work: Work, setting: SettingPlan, algorithm: str, profile: str) -> Unit:
        def measure() -> list[Row]:
            began = time.monotonic()
            sample = sample_of(work, setting)
            values = settings_of(algorithm, setting, sample.problem)
            rounds = work.experiment.rounds
            cost = measured_by_processes(
                sample.shards, algorithm, values, overlap=sample.problem.overlap, profile=profile, rounds=rounds
            )
            steps = tuned_steps(algorithm, setting, len(sample.problem.training.y))
            row = _row(setting, algorithm, steps, PROCESSES, PROFILES_S[profile])
            return [
                row
                | _process_figures(cost)
                | {"share": sample.share, "parties_run": len(sample.shards), "took_s": time.monotonic() - began}
                | {"rounds_run": rounds}
            ]

        return Unit(f"{setting.label} / {algorithm} / {PROCESSES} / {profile}", measure)

    def tables(self, _work: Work, rows: Sequence[ReadRow]) -> list[Table]:
        headings = ["setting", "algorithm", "how", "share", "compute s", "printed", "encryption s", "printed"]
        headings += ["by the paper's rule", "round at 257.5 ms", "printed"]
        middle = f"{PROFILES_S[MIDDLE]:.6g}"
        shown = ["how", "share", "compute_s", "printed_compute_s", "encryption_s", "printed_encryption_s"]
        shown += ["paper_rule_s", "iteration_s", "printed_iteration_s"]
        cells = [
            [row["setting"], TITLES[row["algorithm"]], *(row[name] for name in shown)]
            for row in rows
            if row["latency_s"] == middle
        ]
        return [Table("Seconds of a round, printed beside measured", headings, cells)]

    def charts(self, work: Work, rows: Sequence[ReadRow]) -> list[Chart]:
        """Figure 4: the parts of a round at 257.5 ms, a panel for each setting."""
        middle = f"{PROFILES_S[MIDDLE]:.6g}"
        panels, at = [], [TITLES[name] for name in ALGORITHMS if name in work.experiment.algorithms]
        for setting in work.experiment.settings:
            own = {
                row["algorithm"]: row
                for row in rows
                if (row["setting"], row["how"], row["latency_s"]) == (setting.label, ONE_PROCESS, middle)
            }
            found = [own[name] for name in ALGORITHMS if name in own]
            if len(found) == len(at):
                parts = {"computation": "compute_s", "encryption": "encryption_s", "server": "server_s"}
                series = [
                    Series(label, range(len(found)), [float(row[name]) for row in found])
                    for label, name in {**parts, "latency": "wire_s"}.items()
                ]
                panels.append(Panel(setting.label, "", "seconds of a round", series))
        return [Chart("figure4", "Costs of a round at 257.5 ms", panels, 3, at)] if panels else []


@dataclass(frozen=True, slots=True)
class Sample:
    """The shards that a measurement has, and the share of each party's samples that they are.

    Attributes
    ----------
    server_factor
        How many times the work of the server all parties make, where only some of the parties are run.
    """

    problem: Problem
    shards: Sequence[Shard]
    share: float
    server_factor: float


def sample_of(work: Work, setting: SettingPlan) -> Sample:
    """The shards of a setting, or of a sample of its parties or of its samples where they exceed the options."""
    problem, options = work.problem, work.experiment.options
    most_parties, most_rows = options.get("most_parties"), options.get("most_rows")
    if isinstance(setting.parties, int) and most_parties is not None and setting.party_count > most_parties:
        # Whole groups of four parties with the same samples, each as large as in the setting.
        groups, kept = setting.party_count // QUADRANTS, most_parties // QUADRANTS
        own = range(len(problem.training.y) * kept // groups)
        part = replace(problem, training=_rows_of(problem.training, np.arange(own.stop)))
        fewer = setting.model_copy(update={"parties": kept * QUADRANTS})
        return Sample(part, part.shards(fewer, seed=0), 1.0, groups / kept)
    count = len(problem.training.y)
    if most_rows is not None and count > most_rows:
        part = replace(problem, training=_rows_of(problem.training, np.arange(most_rows)))
        return Sample(part, part.shards(setting, seed=0), most_rows / count, 1.0)
    return Sample(problem, problem.shards(setting, seed=0), 1.0, 1.0)


def longest_rule_s(sample: Sample) -> float:
    """The paper's seconds for four passes over all samples of the largest party: more than any party can need.

    A sample's inner product is encrypted and decrypted, its change encrypted, and its dual variable decrypted.
    """
    largest = max(len(shard.ids) for shard in sample.shards) / sample.share
    return PASSES * largest * ENCRYPT_S


def cost_rounds(work: Work) -> int:
    """The rounds of a measurement of costs: the option `cost_rounds`, or the rounds of the experiment."""
    return int(work.experiment.options.get("cost_rounds", work.experiment.rounds))


def round_cost(work: Work, setting: SettingPlan, algorithm: str) -> tuple[RoundCost, Sample, int | None]:
    """The mean cost of a round, after a first round that is not counted, and the steps of a party."""
    sample = sample_of(work, setting)
    whole = len(work.problem.training.y)
    values = settings_of(algorithm, setting, sample.problem, samples=whole)
    federation = metered(algorithm, sample.shards, sample.problem, parsed_settings(algorithm, values, seed=0))
    federation.metered_round()
    costs = [federation.metered_round(sample.share) for _ in range(cost_rounds(work))]
    mean = RoundCost.mean(costs)
    return replace(mean, server_s=mean.server_s * sample.server_factor), sample, tuned_steps(algorithm, setting, whole)


def _row(setting: SettingPlan, algorithm: str, steps: int | None, how: str, latency_s: float) -> dict[str, Cell]:
    printed: Mapping[str, float] = setting.printed
    compute, encryption = (printed.get(f"{algorithm}_{part}_s") for part in ("compute", "encryption"))
    total = None if compute is None else compute + (encryption or 0.0) + PRINTED_TRIPS[algorithm] * latency_s
    return {
        "setting": setting.label,
        "algorithm": algorithm,
        "h": steps,
        "how": how,
        "latency_s": latency_s,
        "printed_compute_s": compute,
        "printed_encryption_s": encryption,
        "printed_iteration_s": total,
    }


def _figures(cost: RoundCost, latency_s: float) -> dict[str, Cell]:
    work_s = cost.compute_s + cost.encryption_s + cost.server_s
    return {
        "trips": cost.trips,
        "compute_s": cost.compute_s,
        "encryption_s": cost.encryption_s,
        "server_s": cost.server_s,
        "iteration_s": work_s + cost.trips * latency_s,
        "encrypted_values": cost.encrypted,
        "decrypted_values": cost.decrypted,
        "sent_bytes": cost.sent_bytes,
        "paper_rule_s": (cost.encrypted * ENCRYPT_S + cost.decrypted * DECRYPT_S) or None,
    }


def _process_figures(cost: ProcessCost) -> dict[str, Cell]:
    return {
        "trips": cost.trips,
        "compute_s": cost.compute_s,
        "encryption_s": cost.encryption_s,
        "server_s": cost.server_s,
        "wire_s": cost.wire_s,
        "wait_s": cost.wait_s,
        "iteration_s": cost.round_s,
        "sent_bytes": cost.sent_bytes,
    }


def _rows_of(dataset: Dataset, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Dataset:
    return Dataset(dataset.name, dataset.X[rows], dataset.y[rows], dataset.features)
