"""Which rows of a party others have had scored by a model, on its disk, and the rules for further ones.

The scores of two sets of rows that differ in few rows show the scores of these few, whatever the least number of rows.
And each score of a row whose values the asking party knows is one linear equation for the weights of the others: as
many scores as there are weights show all of them. So a party refuses few rows, sets that differ in few rows from an
earlier one, and more rows of a model than its operator allows. The same set may be asked for again: it gives the same
scores.

The file has no ids, but keyed hashes of them, with a key of its own.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fenchel_client.privatefiles import read_private, write_private
from fenchel_common.algorithms.scoring.settings import FEWEST_ROWS
from fenchel_common.errors import Refusal, StateDamaged

FILE: Final = "asked-rows.json"
HASH_BYTES: Final = 16
KEY_BYTES: Final = 32
MOST_ROWS: Final = 1000
REFUSED: Final = "it does not give its part of the scores of these rows"


@dataclass(frozen=True, slots=True)
class ScoringLimits:
    """What a party's operator allows: the fewest rows at once, and the most rows of one model in all."""

    fewest: int = FEWEST_ROWS
    most: int = MOST_ROWS


class AskedRows:
    """The sets of rows that were asked for, by model; `folder` is the party's private folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def admit(self, model: str, ids: Iterable[str], *, fewest: int, limits: ScoringLimits) -> None:
        """Records that the rows are asked for, before any part of their scores leaves; `Refusal` by the rules above.

        `fewest` is the least number of rows by the terms of the run.
        """
        key, models = self._read()
        asked = frozenset(_hash(key, sample) for sample in ids)
        earlier = [frozenset(one) for one in models.get(model, [])]
        if asked in earlier:
            return
        least = max(fewest, limits.fewest)
        if len(asked) < least:
            raise _refusal(f"{len(asked)} rows are asked for, and this party gives its part of no fewer than {least}")
        if near := [len(asked ^ one) for one in earlier if len(asked ^ one) < least]:
            raise _refusal(
                f"the rows differ in {min(near)} from rows that were asked for before; the scores of both would show "
                f"those of fewer than {least} rows"
            )
        every = asked.union(*earlier)
        if len(every) > limits.most:
            raise _refusal(
                f"with these, {len(every)} rows would have been scored by {model}, and this party allows {limits.most} "
                "for one model (--most-rows): many scores of known rows show its weights"
            )
        models[model] = [*models.get(model, []), sorted(asked)]
        write_private(self._path, json.dumps({"key": key.hex(), "models": models}).encode())

    def _read(self) -> tuple[bytes, dict[str, list[list[str]]]]:
        if not self._path.exists():
            return secrets.token_bytes(KEY_BYTES), {}
        try:
            content = json.loads(read_private(self._path))
            key, models = bytes.fromhex(content["key"]), content["models"]
            if len(key) != KEY_BYTES or not all(_is_listed(sets) for sets in models.values()):
                raise ValueError("another form")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateDamaged(
                f"{self._path} is damaged: without it this party would forget what it was asked for, and it gives no "
                "part of any score; restore it from a copy"
            ) from error
        return key, models


def _is_listed(sets: Collection[Collection[str]]) -> bool:
    return all(isinstance(one, list) and all(isinstance(row, str) for row in one) for one in sets)


def _hash(key: bytes, sample: str) -> str:
    return hmac.new(key, sample.encode(), hashlib.sha256).digest()[:HASH_BYTES].hex()


def _refusal(reason: str) -> Refusal:
    return Refusal(reason, public_reason=REFUSED)
