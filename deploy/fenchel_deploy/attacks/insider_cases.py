"""The attacks by a party, alone or together with the server."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks.accomplice import AccompliceEyes
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import ENCRYPTED, LEAKS, Attack, Verdict
from fenchel_deploy.attacks.insiders import contributions_of_the_other, labels_by_sign
from fenchel_deploy.attacks.recorded import Recorded, Scenario
from fenchel_deploy.attacks.row_cases import HIDDEN, SHOWN_AT_PAPER, SINGLE_STEPS, attacked, seen_by
from fenchel_deploy.attacks.rows import rows_from_single_steps
from fenchel_deploy.attacks.scoring import majority_rate, match_rate, row_score
from fenchel_deploy.attacks.tables import ALL_DENSE, Table
from fenchel_deploy.attacks.traces import Trace
from fenchel_deploy.attacks.views import Eyes, KeyEyes

IN_COMMON: Final = ("same samples", "same features", "nothing in common")
"""What the second, the third and the fourth party have in common with the first."""
OF_THREE: Final[Mapping[str, tuple[Table, str]]] = {
    "products, samples of three": ("column_thirds", "products"),
    "differences, features of three": ("row_thirds", "differences"),
}
"""Plays on blocks of three holders, each with its table and its method."""


def _play_collusion(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        if level not in ENCRYPTED:
            continue
        recorded = bench.record(Scenario(level, h=1))
        accomplice = next(iter(recorded.views.values()))
        eyes = KeyEyes.of(accomplice.secrets)
        seen = seen_by(recorded, eyes)
        for name, method in SINGLE_STEPS.items():
            score = attacked(recorded, seen, eyes, method)
            yield Verdict.of_score(score, level=level, setting=f"h = 1, {name}", measure="cosine")


def _play_accomplice(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The first party is the accomplice; of four, each other party has something else in common with it."""
    for level in levels:
        if level not in ENCRYPTED:
            continue
        recorded, eyes, seen = _by_accomplice(bench, Scenario(level, h=1, cipher="masks"))
        for name, method in SINGLE_STEPS.items():
            for (victim, one), common in zip(seen.items(), IN_COMMON, strict=True):
                score = attacked(recorded, {victim: one}, eyes, method)
                yield Verdict.of_score(score, level=level, setting=f"h = 1, {name}, {common}", measure="cosine")
        for setting, (table, name) in OF_THREE.items():
            recorded, eyes, seen = _by_accomplice(bench, Scenario(level, table, h=1, cipher="masks"))
            score = attacked(recorded, seen, eyes, SINGLE_STEPS[name])
            yield Verdict.of_score(score, level=level, setting=f"h = 1, {setting}", measure="cosine")


def _by_accomplice(bench: Bench, scenario: Scenario) -> tuple[Recorded, Eyes, dict[ClientId, Trace]]:
    """A run whose first party gives its keys to the server, and what both see of each other party."""
    recorded = bench.record(scenario)
    first = recorded.transcript.layout.clients[0]
    eyes = AccompliceEyes.of(recorded.views[first], recorded.transcript)
    return recorded, eyes, {client: one for client, one in seen_by(recorded, eyes).items() if client != first}


def _play_co_holder(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The first party and the third hold the same features of different samples."""
    for level in levels:
        recorded = bench.record(Scenario(level, h=1))
        names = recorded.transcript.layout.clients
        found = contributions_of_the_other(recorded.views[names[0]])
        rows, strangers = recorded.truth.rows[names[2]], recorded.truth.strangers[names[2]]
        moved = {position: later - found[position - 1] for position, later in enumerate(found) if position}
        score = row_score(rows_from_single_steps(moved), rows, strangers)
        yield Verdict.of_score(score, level=level, setting="h = 1, two holders", measure="cosine")


def _play_labels(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    """The second party holds the first one's samples, without labels."""
    for level in levels:
        for setting, scenario in {
            "h = all": Scenario(level, loss="logistic", h=ALL_DENSE),
            "corrective": Scenario(level, local="corrective"),
        }.items():
            recorded = bench.record(scenario)
            name = recorded.transcript.layout.clients[1]
            guessed, true = labels_by_sign(recorded.views[name]), recorded.truth.labels[name]
            told = guessed != 0.0
            rate = match_rate(guessed[told].tolist(), true[told].tolist())
            chance = majority_rate(true[told].tolist())
            note = f"of the {int(told.sum())} among {len(true)} rows whose α is not 0; chance {chance:.2f}"
            yield Verdict.of_rate(rate, level=level, setting=setting, note=note, chance=chance)


INSIDER_ATTACKS: Final = (
    Attack(
        "shared-key",
        "opens everything with one party's key, and then attacks rows as above",
        "server and a party",
        {f"h = 1, {name}": dict.fromkeys(ENCRYPTED, "leaks") for name in SINGLE_STEPS},
        _play_collusion,
    ),
    Attack(
        "shared-masks",
        "opens what one party's keys of masks open, and then attacks rows of each other party as above",
        "server and a party",
        {
            "h = 1, iterates, same samples": SHOWN_AT_PAPER,
            "h = 1, iterates, same features": HIDDEN,
            "h = 1, iterates, nothing in common": HIDDEN,
            "h = 1, products, same samples": SHOWN_AT_PAPER,
            "h = 1, products, same features": HIDDEN,
            "h = 1, products, nothing in common": HIDDEN,
            "h = 1, differences, same samples": SHOWN_AT_PAPER,
            "h = 1, differences, same features": dict.fromkeys(ENCRYPTED, "leaks"),
            "h = 1, differences, nothing in common": SHOWN_AT_PAPER,
            "h = 1, products, samples of three": HIDDEN,
            "h = 1, differences, features of three": SHOWN_AT_PAPER,
        },
        _play_accomplice,
    ),
    Attack(
        "co-holder",
        "subtracts its own contribution to a feature that exactly two hold",
        "party",
        {"h = 1, two holders": LEAKS},
        _play_co_holder,
    ),
    Attack(
        "labels-by-sign",
        "reads the labels of its own samples off the sign of α",
        "party without labels",
        {"h = all": LEAKS, "corrective": LEAKS},
        _play_labels,
    ),
)
