"""The default of every setting of a run, the same at every entry, and each deliberate exception.

An entry is one of the sources of a run's settings: a run's file, the settings of an algorithm, a command that makes up
a federation. Settings have the same names here as in a run's file. docs/defaults.md shows this table; a test compares
both with the settings that the entries really use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from fenchel_common.privacy import Privacy

ALGORITHM: Final = "hyfdca"
LOSS: Final = "hinge"
LAMBDA: Final = 1e-2
PARTICIPATION: Final = "all"
LOCAL: Final = "corrective"
PRIVACY: Final = Privacy.SEALED
CIPHER: Final = "paillier"
KEY_BITS: Final = 3072
KEY_KIND: Final = "standard"
ALIGNMENT: Final = "blinders"
OVERLAP: Final = "error"
SAMPLES: Final = "labelled"
SCALE: Final = "standard"
MISSING: Final = "mean"
CATEGORY_SAMPLES: Final = 10
INDICATORS: Final = False
INTERCEPT: Final = False
ROWS: Final = "none"
FEWEST_VALUES: Final = 10
PRECISION: Final = "auto"
DEADLINE_S: Final = 120.0
QUORUM: Final = 0.5
ATTEMPTS: Final = 3
WAIT_S: Final = 600.0
GAP: Final = 1e-3
ROUNDS: Final = 1000
SEED: Final = 0

DEMO_KEY_BITS: Final = 2048
DEMO_DEADLINE_S: Final = 60.0
DEMO_RELATIVE_GAP: Final = 1e-3
"""The gap of a demonstration, relative to the centralized optimum, which it knows."""
UNCERTIFIED_ROUNDS: Final = 100
COMPARED_ROUNDS: Final = 3
ATTACKED_GAP: Final = 1e-9
ATTACKED_LAMBDA: Final = 0.02
MEASURED_ROUNDS: Final = 1_000_000
REPEATED_GAP: Final = 1e-12
REPEATED_DEADLINE_S: Final = 600.0

DEFAULTS: Final[Mapping[str, object]] = {
    "algorithm": ALGORITHM,
    "settings.loss": LOSS,
    "settings.lambda": LAMBDA,
    "settings.participation": PARTICIPATION,
    "settings.local": LOCAL,
    "privacy": PRIVACY,
    "benchmark": False,
    "acknowledge_row_leak": False,
    "acknowledge_extremes": False,
    "cipher": CIPHER,
    "key.bits": KEY_BITS,
    "key.kind": KEY_KIND,
    "alignment": ALIGNMENT,
    "overlap": OVERLAP,
    "samples": SAMPLES,
    "features": None,
    "precision": PRECISION,
    "round.deadline_s": DEADLINE_S,
    "round.quorum": QUORUM,
    "round.attempts": ATTEMPTS,
    "round.wait_s": WAIT_S,
    "stop.gap": GAP,
    "stop.rounds": ROUNDS,
    "stop.seconds": None,
    "path": None,
    "release": None,
    "seed": None,
}
"""`settings.local` is HyFDCA's. Each algorithm has further parameters of its own, which `fenchel algorithms` lists."""

Entry = Literal[
    "docker-compose.yml",
    "fenchel demo",
    "fenchel up",
    "an algorithm without certificate in fenchel demo or fenchel up",
    "fenchel audit --compare",
    "fenchel audit --attack",
    "fenchel bench rounds",
    "fenchel bench rounds --repeat-encrypted",
    "fenchel bench run",
    "algorithms of whole rows",
    "fedsgm",
]


@dataclass(frozen=True, slots=True)
class Departure:
    """A setting that deliberately has another value at some entries, and the reason."""

    setting: str
    value: object
    entries: tuple[Entry, ...]
    reason: str


DEMONSTRATIONS: Final[tuple[Entry, ...]] = ("fenchel demo", "fenchel up", "fenchel audit --compare")

DEPARTURES: Final = (
    Departure(
        "key.bits",
        DEMO_KEY_BITS,
        (
            *DEMONSTRATIONS,
            "docker-compose.yml",
            "fenchel audit --attack",
            "fenchel bench rounds",
            "fenchel bench rounds --repeat-encrypted",
            "fenchel bench run",
        ),
        "no private data are behind it, and a shorter key is quicker",
    ),
    Departure(
        "round.deadline_s",
        DEMO_DEADLINE_S,
        (*DEMONSTRATIONS, "docker-compose.yml"),
        "all parties run on one machine, so a party that is silent for a minute is gone",
    ),
    Departure(
        "seed",
        SEED,
        (
            *DEMONSTRATIONS,
            "fenchel bench rounds",
            "fenchel bench rounds --repeat-encrypted",
            "fenchel bench run",
        ),
        "the same command gives the same numbers each time",
    ),
    Departure(
        "stop.gap",
        "0.1 % of the optimum",
        (*DEMONSTRATIONS, "fenchel bench run"),
        "the command solves the problem in one place too, and promises this distance from that optimum",
    ),
    Departure(
        "stop.gap",
        1e-4,
        ("docker-compose.yml",),
        "below 0.1 % of the optimum of its data set, which the server does not know",
    ),
    Departure(
        "stop.rounds",
        UNCERTIFIED_ROUNDS,
        ("an algorithm without certificate in fenchel demo or fenchel up",),
        "no gap ends such a run, and it is near its end by then",
    ),
    Departure(
        "stop.rounds",
        COMPARED_ROUNDS,
        ("fenchel audit --compare",),
        "a few rounds show every kind of message",
    ),
    Departure(
        "stop.gap",
        ATTACKED_GAP,
        ("fenchel audit --attack",),
        "the attacks set the number of rounds, so a run must not end before them",
    ),
    Departure(
        "settings.local",
        "paper",
        ("fenchel audit --attack",),
        "most attacks are on the paper's steps, which show more; attacks on corrective steps say so",
    ),
    Departure(
        "settings.lambda",
        ATTACKED_LAMBDA,
        ("fenchel audit --attack",),
        "the attacks play on a small made-up table",
    ),
    Departure(
        "acknowledge_row_leak",
        True,
        ("fenchel audit --attack",),
        "to show the leak is what the attacks are for",
    ),
    Departure(
        "precision",
        64,
        ("fenchel audit --attack",),
        "narrow inner products are divided by numbers that the server does not know; the attacks read them as they are",
    ),
    Departure("privacy", Privacy.PLAIN, ("fenchel bench rounds",), "the number of rounds is the same at every level"),
    Departure(
        "stop.gap",
        None,
        ("fenchel bench rounds",),
        "the bench compares with the optimum itself",
    ),
    Departure("stop.rounds", MEASURED_ROUNDS, ("fenchel bench rounds",), "the bench ends a run by its own --rounds"),
    Departure(
        "stop.gap",
        REPEATED_GAP,
        ("fenchel bench rounds --repeat-encrypted",),
        "a repeated run has the number of rounds of the run in clear",
    ),
    Departure(
        "round.deadline_s",
        REPEATED_DEADLINE_S,
        ("fenchel bench rounds --repeat-encrypted", "fenchel bench run"),
        "up to 36 parties share the cores of one machine",
    ),
    Departure(
        "round.quorum",
        1.0,
        ("fenchel bench rounds --repeat-encrypted", "fenchel bench run"),
        "only a run with all parties can be compared with the run in clear",
    ),
    Departure(
        "settings.loss",
        "logistic",
        ("algorithms of whole rows",),
        "a smooth loss suits the gradient steps that these algorithms take",
    ),
    Departure(
        "settings.lambda", 0.0, ("fedsgm",), "it trains under a constraint, without regularisation unless asked for"
    ),
)
