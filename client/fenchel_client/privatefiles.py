"""Files that only their owner can read."""

import os
import stat
import tempfile
from pathlib import Path

from fenchel_common.errors import KeyFileError

OWNER_ONLY = 0o600


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replaces the file, which is never visible half-written or with a wider mode.

    If `durable`, a power cut after the call does not undo it.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), OWNER_ONLY)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_private(path: Path) -> bytes:
    """The file's content; refuses a file that others could have read."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise KeyFileError(
                    f"{path} has mode {mode:04o}, so others can read it; treat the key in it as known to them and make "
                    "a new one, or, if nobody else uses this machine, run chmod 600 on it"
                )
            return file.read()
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
