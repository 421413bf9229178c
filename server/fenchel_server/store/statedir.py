"""The server's state directory: its lock, and the snapshot files beside the database.

    STATE/server.lock         locked by the one server that may write here
    STATE/state.db            SQLite, with its -wal and -shm files
    STATE/snapshots/*.snap    the latest snapshot of each run

A snapshot is a file and not a BLOB because it is rewritten whole in every round, and a BLOB of tens of megabytes
would be written twice (log and database) and capped at a gigabyte. The order of writes keeps it atomic: the file gets
a name that no row refers to, it is made durable, then the transaction that names it commits, and only then the
previous file is removed. A crash between any two of these steps leaves the committed row with its own intact file and,
at worst, a file that no row names, which the next server removes.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fenchel_common.errors import StateDamaged, StateInUse, StoreError
from fenchel_common.ids import RoundId, RunId

DATABASE_NAME = "state.db"
LOCK_NAME = "server.lock"
SNAPSHOTS_NAME = "snapshots"
SNAPSHOT_SUFFIX = ".snap"


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """The name of a snapshot file, and the size and digest that its content must have."""

    name: str
    size: int
    digest: bytes


class StateLock:
    """Exclusive use of a state directory; the kernel releases it however the process ends."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            process = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise StateInUse(
                f"{directory} is in use by another server (process {process}); "
                "stop that one or give this one a state directory of its own"
            ) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Gives up the lock, so that another server may use the state directory."""
        os.close(self._file)


def is_served(directory: Path) -> bool:
    """Whether a server process uses the state directory now."""
    try:
        file = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def make_state_directory(directory: Path) -> None:
    """Makes the directory and its snapshot folder, for the server's own user alone."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / SNAPSHOTS_NAME).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the state directory {directory}: {error.strerror}") from error
    sync_directory(directory)


def write_snapshot(directory: Path, run: RunId, round_id: RoundId, state: bytes) -> SnapshotFile:
    """Writes a snapshot and makes it durable; nothing refers to it until a transaction names it."""
    name = f"{run}.{round_id}{SNAPSHOT_SUFFIX}"
    folder = directory / SNAPSHOTS_NAME
    try:
        with (folder / name).open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(folder)
    except OSError as error:
        raise StoreError(f"cannot write the snapshot {folder / name}: {error.strerror}") from error
    return SnapshotFile(name, len(state), _digest(state))


def read_snapshot(directory: Path, file: SnapshotFile) -> bytes:
    """The content of a snapshot file.

    Raises `StateDamaged` if the content is not what was written, `FileNotFoundError` if a newer snapshot replaced it.
    """
    path = directory / SNAPSHOTS_NAME / file.name
    state = path.read_bytes()
    if len(state) != file.size or _digest(state) != file.digest:
        raise StateDamaged(f"{path} is not what was written; restore the state directory from a backup")
    return state


def remove_snapshot(directory: Path, name: str) -> None:
    """Removes a snapshot that no row names any more."""
    (directory / SNAPSHOTS_NAME / name).unlink(missing_ok=True)


def sweep_snapshots(directory: Path, *, keep: Iterable[str]) -> None:
    """Removes all snapshot files but those in `keep`: a crash before a commit or after it can leave such files."""
    kept = frozenset(keep)
    for path in (directory / SNAPSHOTS_NAME).glob(f"*{SNAPSHOT_SUFFIX}"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(state: bytes) -> bytes:
    return hashlib.blake2b(state, digest_size=32).digest()
