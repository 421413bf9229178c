"""Settings of every algorithm of the tables, and of one algorithm for each family."""

from typing import Final

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.settings import AlgorithmSettings

EVERY: Final[dict[str, AlgorithmSettings]] = {
    **{name: entry.parse({}) for name, entry in SETTINGS.items() if not entry.by_local},
    **{
        f"{name} {local}": entry.parse({"local": local}) for name, entry in SETTINGS.items() for local in entry.by_local
    },
    "hyfdca of some parties": SETTINGS["hyfdca"].parse({"participation": "cyclic:2"}),
}
"""Settings by the algorithm's name, and by `local` if the algorithm has it; corrective steps of some parties too."""

BY_FAMILY: Final[dict[str, AlgorithmSettings]] = {
    "hyfdca": EVERY["hyfdca paper"],
    "corrective": EVERY["hyfdca corrective"],
    "partial": EVERY["hyfdca of some parties"],
    "averaging": EVERY["scaffold"],
    "scoring": EVERY["scoring"],
}
"""One algorithm's settings by the name of the family."""

SEVERAL_CLASSES: Final = SETTINGS["hyfdca"].parse({"classes": ["red", "green", "blue"]})
"""Of a corrective run of several classes, whose messages are others than those of one problem."""
