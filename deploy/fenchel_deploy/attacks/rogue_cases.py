"""The attacks of a server that leaves the protocol in the set-up or at the end of a run, with scores and claims."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId, RunId
from fenchel_common.metrics import LastCertificate
from fenchel_common.model.folder import SUFFIX, WEIGHTS_FILE
from fenchel_common.objectives import squared_row_norms
from fenchel_common.privacy import Privacy
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.alignment import client_layout_to_bytes
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import ENCRYPTED, SAFE, SAFE_IF_ENCRYPTED, Attack, Claims, Verdict
from fenchel_deploy.attacks.meddling import Played, goes_on
from fenchel_deploy.attacks.recorded import Scenario
from fenchel_deploy.attacks.rogue_server import (
    Lie,
    LyingSetup,
    norms_in_clear,
    one_cell,
    other_features,
    other_holders,
    other_rows,
)
from fenchel_deploy.attacks.views import Array
from fenchel_deploy.inprocess.parties import ATTEMPT, Parties, asked
from fenchel_server.federationrun import FederationRun

ROGUE: Final = "server that leaves the protocol"
SAFE_WHERE_ENCRYPTED: Final[Claims] = dict.fromkeys(ENCRYPTED, "safe")

TOLERANCE: Final = 1e-3
ROUNDS_AFTER_A_LIE: Final = 2
OTHER_WEIGHT: Final = 7.0
"""Each weight of a model that the server makes up."""

LIES: Final[dict[str, Lie]] = {
    "rows in another order": other_rows,
    "features in another order": other_features,
    "another co-holder": other_holders,
}


def _encrypted(levels: Sequence[Privacy]) -> list[Privacy]:
    return [level for level in levels if level.encrypts_samples]


def _right(found: Array, true: Array) -> float:
    """The rate of values that were found, up to a small error; a value that is missing is not found."""
    hits = sum(abs(value - right) < TOLERANCE for value, right in zip(found, true, strict=False))
    return float(hits / len(true))


def _play_downgrade(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    plain = bench.record(Scenario(Privacy.PLAIN, h=1, rounds=0))
    run = plain.transcript.run
    victim = plain.transcript.layout.clients[1]
    for level in _encrypted(levels):
        scenario = Scenario(level, h=1, rounds=0)
        parties, _, _ = bench.parties(scenario, f"{run}-downgraded-to-{level}")
        found = norms_in_clear(
            plain.transcript,
            bench.record(scenario).transcript,
            lambda client, round_id, phase, body, parties=parties: asked(parties[client], run, round_id, phase, body),
            victim,
        )
        true = squared_row_norms(plain.truth.rows[victim])
        rate = _right(np.sort(found[found != 0.0])[::-1][: len(true)], np.sort(true)[::-1])
        note = f"{len(true)} squared lengths of rows, from the key blob of a run in clear"
        yield Verdict.of_rate(rate, level=level, setting="row lengths", note=note)


def _play_layout(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in _encrypted(levels):
        recorded = bench.record(Scenario(level, h=1, rounds=1))
        outcomes: dict[str, bool] = {}
        for name in sorted(recorded.transcript.layout.label_holders):
            body = client_layout_to_bytes(one_cell(recorded.views[name].layout))
            outcomes[name] = goes_on(recorded.ask, name, 0, LAYOUT, body)
        yield Verdict.of_attempts(outcomes, level=level, setting="one cell")


def _play_layouts_apart(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        outcomes = {told: goes_on(_play_lie, bench, level, lie) for told, lie in LIES.items()}
        yield Verdict.of_attempts(outcomes, level=level, setting="co-holders told apart")


def _play_lie(bench: Bench, level: Privacy, lie: Lie) -> None:
    """A set-up in which one party without labels is told another layout, and the first rounds after it."""
    scenario, run = Scenario(level, h=1, rounds=0), RunId(f"lie-{lie.__name__.replace('_', '-')}-{level}")
    made, shards, roster = bench.parties(scenario, run)
    victim = roster.names[1]
    federation = FederationRun(scenario.config(run), roster, certificate=LastCertificate)
    samples, features = len(shards[victim].ids), len(shards[victim].features)
    setup = LyingSetup(federation.setup(ATTEMPT), victim, lie, samples=samples, features=features)
    parties = Parties(made, run)
    done = parties.set_up(setup)
    algorithm = federation.restore(done.record, done.snapshot)
    for number in range(1, ROUNDS_AFTER_A_LIE + 1):
        parties.round(algorithm, number)


def _play_finish(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        played = Played(bench.record(Scenario(level, h=1, rounds=0)))
        name = played.layout.clients[0]
        for _ in range(2):
            played.round()
        end = played.ending(name)
        played.finish(name, end)
        model = played.state[name] / f"{played.run}{SUFFIX}" / WEIGHTS_FILE
        kept = model.read_bytes()
        with suppress(FenchelError):
            played.finish(name, played.with_other_model(end, OTHER_WEIGHT))
        outcomes = {"another model for a run that is over": model.read_bytes() != kept}
        yield Verdict.of_attempts(outcomes, level=level, setting="a past run")


def _play_early_finish(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        for setting, scenario in {
            "after one step of HyFDCA": Scenario(level, h=1, rounds=0, releases=True),
            "after one corrective round": Scenario(level, "labelled", "corrective", rounds=0, releases=True),
            "after one round of FedAvg": Scenario(level, algorithm="fedavg", rounds=0, releases=True),
        }.items():
            played = Played(bench.record(scenario))
            played.round()
            outcomes: dict[str, bool] = {name: _releases(played, name) for name in played.layout.clients}
            yield Verdict.of_attempts(outcomes, level=level, setting=setting)


def _releases(played: Played, name: ClientId) -> bool:
    try:
        return bool(played.finish(name, played.ending(name)))
    except FenchelError:
        return False


ROGUE_ATTACKS: Final = (
    Attack(
        "downgrade",
        "hands a party the key blob of an earlier run in clear, under the id of an encrypted run",
        ROGUE,
        {"row lengths": SAFE_WHERE_ENCRYPTED},
        _play_downgrade,
        unchecked=("row lengths",),
    ),
    Attack(
        "layout",
        "gives a party a layout of one row and one feature in mid-run",
        ROGUE,
        {"one cell": SAFE_WHERE_ENCRYPTED},
        _play_layout,
        unchecked=("one cell",),
    ),
    Attack(
        "layouts-apart",
        "tells parties that hold the same samples or features different layouts",
        ROGUE,
        {"co-holders told apart": SAFE_IF_ENCRYPTED},
        _play_layouts_apart,
        unchecked=("co-holders told apart",),
    ),
    Attack(
        "finish",
        "tells a party of the end of a past run once more, with a model of its own",
        ROGUE,
        {"a past run": SAFE},
        _play_finish,
        unchecked=("a past run",),
    ),
    Attack(
        "early-finish",
        "ends a run after one round, and has the parties release the model, which is near to a row",
        ROGUE,
        dict.fromkeys(("after one step of HyFDCA", "after one corrective round", "after one round of FedAvg"), SAFE),
        _play_early_finish,
        unchecked=("after one step of HyFDCA", "after one corrective round", "after one round of FedAvg"),
    ),
)
