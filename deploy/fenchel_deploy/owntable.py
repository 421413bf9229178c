"""A party's own table, as its client reads it: what its owner should know of it goes to the client's log."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from fenchel_client.consent import Consent
from fenchel_client.runtable import UNFIT
from fenchel_client.workers.holders import Holder
from fenchel_client.workers.spreadtable import SpreadTable
from fenchel_common.data.shard import Shard
from fenchel_common.data.tables import source
from fenchel_common.data.tables.files import files_of, is_many
from fenchel_common.data.tables.source import WatchedTable
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.identity import Kit
from fenchel_common.privatelog import PRIVATE

log = logging.getLogger(__name__)


class OwnTable:
    """The table that the client was given.

    With `holders`, which gives at most so many workers that hold rows, this process keeps no values of features.
    """

    def __init__(self, path: Path, holders: Callable[[int], Sequence[Holder]] | None = None) -> None:
        self._path = path
        self._holders = holders
        self._table = WatchedTable(path, self._load)

    def read(self) -> Shard | SpreadTable:
        return self._table.read()

    def newer(self) -> Shard | SpreadTable | None:
        """The table, if it has changed since it was last read; `DataUnfit` if it cannot be used any more."""
        try:
            found = self._table.newer()
        except InvalidInput as error:
            raise DataUnfit(str(error), public_reason=UNFIT) from error
        if found is not None:
            log.info("%s has changed and was read again", self._path)
        return found

    def _load(self, path: Path) -> Shard | SpreadTable:
        if self._holders is None:
            return self._told(source.load_shard(path))
        table = source.TableFile.find(path)
        if table.declaration is None or not is_many(table.path):
            raise InvalidInput(f"{path}: workers hold the rows of many Parquet files, which shard.toml names")
        files = files_of(table.path)
        spread = SpreadTable(files, table.declaration, self._holders(len(files)))
        log.info("%s: workers hold the rows of %d files", self._path, len(files))
        return spread

    def _told(self, found: source.LoadedShard) -> Shard:
        for guess in found.guesses:
            log.info("%s: guessed: %s", self._path, guess)
        for caution in found.cautions:
            log.warning("%s", caution, extra=PRIVATE)
        return found.shard


def check_party(kit: Kit, shard: Shard | SpreadTable, consent: Consent, *, data: Path) -> None:
    """`InvalidInput` if the table lacks the labels that the roster promises, or a key holder approves no roster."""
    if kit.roster.party(kit.name).labels and shard.y is None:
        raise InvalidInput(
            f"{data} has no labels, but the roster says that {kit.name} has them; name their column under [label] "
            f"in shard.toml, or let the operator write labels = false for {kit.name} into federation.toml"
        )
    if kit.roster.key_holder.name == kit.name and not consent.approves(kit.roster):
        raise InvalidInput(
            f"{kit.name} makes the key for everyone on the roster: {', '.join(kit.roster.names)}; "
            f"if these are the right ones, add --approve-roster {kit.roster.fingerprint()}"
        )
