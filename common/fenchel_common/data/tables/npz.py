"""NPZ files, as `Shard.save` writes them, and as people do."""

from pathlib import Path

from fenchel_common.data.shard import load_parts
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.matrices import MatrixReader
from fenchel_common.data.tables.raw import RawTable


class NpzReader(MatrixReader):
    """Reads .npz files with `ids`, `features`, `X` (or the parts of a CSR matrix), and maybe `y` and `weights`."""

    def options(self, path: Path, declaration: Declaration) -> Declaration:  # noqa: ARG002 - an NPZ file says all
        return declaration

    def matrix(self, path: Path, declaration: Declaration) -> RawTable:  # noqa: ARG002 - of the interface
        ids, features, X, y, weights = load_parts(path)
        return RawTable(str(path), list(ids), features, X, y, weights=weights)


READER = NpzReader()
