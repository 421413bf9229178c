"""Two runs side by side: what each cost, by kind, and the ratios."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fenchel_common.errors import InvalidInput
from fenchel_server.rounds.outcome import outcome_of_record
from fenchel_server.store import SqliteStore

RESULT_SUFFIX = ".json"
BYTES_IN_WORDS = {
    "up": "bytes up",
    "down": "bytes down",
    "ciphertext_up": "ciphertext bytes up",
    "ciphertext_down": "ciphertext bytes down",
    "port_up": "bytes up at the port",
    "port_down": "bytes down at the port",
}
"""For each field of a run's `Traffic` what it is."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run cost, by kind; a kind that is not known of the run is missing."""

    run: str
    by_kind: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of cost in two runs; None if it is not known."""

    kind: str
    first: float | None
    second: float | None

    @property
    def ratio(self) -> float | None:
        """second ÷ first; None if one of them is not known, or the first is 0."""
        return self.second / self.first if self.first and self.second is not None else None


def compare(first: Costs, second: Costs) -> list[Row]:
    """Every kind of cost that is known of at least one of the runs."""
    kinds = dict.fromkeys([*first.by_kind, *second.by_kind])
    return [Row(kind, first.by_kind.get(kind), second.by_kind.get(kind)) for kind in kinds]


def costs_of_run(word: str, state: Path | None) -> Costs:
    """The costs of a run: from its file of results if `word` names a .json file, else from a server's state folder.

    A run that is not over has the costs of its committed rounds. Raises `UnknownRun` if the state has no such run, and
    `InvalidInput` if there is neither a file nor a state folder, or nothing is committed yet.
    """
    if word.endswith(RESULT_SUFFIX):
        return Costs(word, _by_kind(_read_result(Path(word))))
    if state is None:
        raise InvalidInput(f"{word}: name the server's state folder by --state, or give a file of results, RUN.json")
    with SqliteStore.inspect(state) as store:
        record = store.find(word)
        outcome = outcome_of_record(record, store.rounds(record.run))
    if outcome is None:
        raise InvalidInput(f"{word}: nothing of this run is committed yet, so there are no costs to compare")
    return Costs(word, _by_kind({**outcome.to_mapping(), "gap": outcome.certificate.gap}))


def _read_result(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = {name: content[name] for name in ("rounds", "seconds", "bytes")}
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path} has no costs of a run; files of `fenchel server --results` have them, and the JSON of "
            "`fenchel demo` and `fenchel up`"
        ) from None
    return {**content, **known}


def _by_kind(result: Mapping[str, Any]) -> dict[str, float]:
    """The costs in a mapping with the fields of a `RunOutcome`, by kind in words."""
    memory = [spent["rss_mib"] for spent in result.get("clients_detail", {}).values()]
    kinds = {
        "rounds": result["rounds"],
        "round trips a round": result.get("rtc_per_round"),
        "duality gap": result.get("gap"),
        **{f"{kind}, seconds": seconds for kind, seconds in result["seconds"].items()},
        **{f"{kind}, seconds a round": seconds for kind, seconds in result.get("round_seconds", {}).items()},
        **{f"{whose}, CPU seconds": seconds for whose, seconds in result.get("cpu_seconds", {}).items()},
        **{BYTES_IN_WORDS[way]: count for way, count in result["bytes"].items() if way in BYTES_IN_WORDS},
        "peak memory of a party, MiB": max(memory, default=None),
    }
    return {kind: value for kind, value in kinds.items() if isinstance(value, int | float)}
