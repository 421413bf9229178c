"""The attacks of a server whose departures from the protocol a party can notice, each with its score and its claim."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from fenchel_client.runrecords import MAX_REFUSALS
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import StateUpdate
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId
from fenchel_common.objectives import squared_row_norms
from fenchel_common.privacy import Privacy
from fenchel_common.setup import FINISH, ModelPart
from fenchel_common.wire.hyfdca import state_to_bytes
from fenchel_common.wire.setup import model_part_to_bytes
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import ENCRYPTED, SAFE, Attack, Claims, Verdict
from fenchel_deploy.attacks.opened_figures import encrypted_by_anybody
from fenchel_deploy.attacks.recorded import Recorded, Scenario
from fenchel_deploy.attacks.rogue_server import LoneCell, Reaction, norms_in_clear
from fenchel_deploy.attacks.views import Array, KeyEyes
from fenchel_deploy.inprocess.parties import asked

ROGUE: Final = "server that leaves the protocol"
SAFE_WHERE_ENCRYPTED: Final[Claims] = dict.fromkeys(ENCRYPTED, "safe")
LEAKS_WHERE_ENCRYPTED: Final[Claims] = dict.fromkeys(ENCRYPTED, "leaks")

TOLERANCE: Final = 1e-3
PRECISION: Final = 1e-4
SLOTS_READ: Final = 3


def _encrypted(levels: Sequence[Privacy]) -> list[Privacy]:
    return [level for level in levels if level.encrypts_samples]


def _right(found: Sequence[float | None] | Array, true: Sequence[float] | Array) -> float:
    """The rate of values that were found, up to a small error; a value that is missing is not found."""
    hits = sum(value is not None and abs(value - right) < TOLERANCE for value, right in zip(found, true, strict=False))
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
        cells = {name: _cell(recorded, name) for name in sorted(recorded.transcript.layout.label_holders)}
        true = [_first_cell(recorded, name) for name in cells]
        note = f"one cell of each of {len(true)} parties, by a layout of one row and one feature in mid-run"
        yield Verdict.of_rate(_right(list(cells.values()), true), level=level, setting="one cell", note=note)


def _cell(recorded: Recorded, name: ClientId) -> float | None:
    features = tuple(sorted(recorded.views[name].table.features))
    return LoneCell(recorded.transcript, recorded.ask, name, features).cell()


def _first_cell(recorded: Recorded, name: ClientId) -> float:
    """|x| of the first feature by pseudonym in the row that the party lists first."""
    view = recorded.views[name]
    return float(abs(recorded.truth.rows[name][view.layout.rows.tolist().index(0), 0]))


def _play_oracle(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in _encrypted(levels):
        recorded = bench.record(Scenario(level, h=1, rounds=2))
        for setting in ("bisection", "slow sweeps"):
            reaction = Reaction(
                recorded.transcript, recorded.restarted().ask, victim := recorded.transcript.layout.clients[0]
            )
            if setting == "bisection":
                found = [reaction.by_bisection(slot, PRECISION) for slot in range(SLOTS_READ)]
            else:
                found = [reaction.by_sweeps(0, PRECISION, refusals=MAX_REFUSALS)]
            true = _products(recorded, reaction, victim)[: len(found)]
            note = f"{len(found)} sealed inner products of another party's, {reaction.tasks} tasks"
            yield Verdict.of_rate(_right(found, true), level=level, setting=setting, note=note)


def _products(recorded: Recorded, reaction: Reaction, holder: ClientId) -> Array:
    """The inner products that the attack was after, opened with the key that it does not have."""
    eyes = KeyEyes.of(recorded.views[holder].secrets, recorded.transcript.config.key.bits)
    return eyes.cipher.decrypt(reaction.target)


def _play_finish(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        recorded = bench.record(Scenario(level, h=1, rounds=3))
        transcript, name = recorded.transcript, recorded.transcript.layout.clients[0]
        last = transcript.messages[-1].round_id + 1
        recorded.ask(name, last, FINISH, recorded.end_for(name))
        model = bench.state_of(name, transcript.run) / f"{transcript.run}.model.npz"
        kept = model.read_bytes()
        with suppress(FenchelError):
            recorded.ask(name, last, FINISH, _another_end(recorded, name))
        outcomes = {"another model for a run that is over": model.read_bytes() != kept}
        yield Verdict.of_attempts(outcomes, level=level, setting="a past run")


def _another_end(recorded: Recorded, name: ClientId) -> bytes:
    """The end of the run once more, with weights of the server's own choice."""
    transcript = recorded.transcript
    blocks = tuple(transcript.layout.feature_index.of(name))
    feature_key = transcript.key.by_feature(transcript.config.privacy)
    chosen = np.full(len(blocks) * transcript.layout.slots, 7.0)
    model = BlockVector(blocks, encrypted_by_anybody(chosen, PRODUCT_FORMAT, feature_key))
    state = state_to_bytes(StateUpdate(model=model))
    return model_part_to_bytes(ModelPart(state, primal=None, dual=None, gap=None))


ROGUE_ATTACKS: Final = (
    Attack(
        "downgrade",
        "hands a party the key blob of an earlier run in clear, under the id of an encrypted run",
        ROGUE,
        {"row lengths": SAFE_WHERE_ENCRYPTED},
        _play_downgrade,
    ),
    Attack(
        "layout",
        "gives a party a layout of one row and one feature in mid-run, and reads the cell off the model",
        ROGUE,
        {"one cell": SAFE_WHERE_ENCRYPTED},
        _play_layout,
    ),
    Attack(
        "oracle",
        "shifts another party's encrypted values to their bound, and watches whether they are accepted",
        ROGUE,
        {"bisection": SAFE_WHERE_ENCRYPTED, "slow sweeps": LEAKS_WHERE_ENCRYPTED},
        _play_oracle,
    ),
    Attack(
        "finish",
        "tells a party of the end of a past run once more, with a model of its own",
        ROGUE,
        {"a past run": SAFE},
        _play_finish,
    ),
)
