"""The server's durable memory: runs, their set-up, their committed rounds and the latest snapshot of each run."""

from fenchel_server.store.base import (
    AbsenceRecord,
    Ending,
    PartyRecord,
    RoundRecord,
    RunRecord,
    RunStatus,
    SetupRecord,
    Snapshot,
    Store,
    new_run_id,
)
from fenchel_server.store.memory import MemoryStore
from fenchel_server.store.sqlite import SqliteStore

__all__ = [
    "AbsenceRecord",
    "Ending",
    "MemoryStore",
    "PartyRecord",
    "RoundRecord",
    "RunRecord",
    "RunStatus",
    "SetupRecord",
    "Snapshot",
    "SqliteStore",
    "Store",
    "new_run_id",
]
