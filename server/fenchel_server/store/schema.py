"""The tables of the SQLite store, and how a connection to them is opened."""

import sqlite3
from pathlib import Path

from fenchel_common.errors import NoState, SchemaTooNew, StoreError

SCHEMA_VERSION = 7
APPLICATION_ID = 0x46454E43
"""Marks the file as Fenchel's, so that no other program's database is used by mistake."""

BUSY_TIMEOUT_S = 30.0
"""How long a statement waits for another process's transaction, which writes at most one snapshot."""

RUNS = """
CREATE TABLE runs (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    config TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    key_fingerprint TEXT,
    key_bits INTEGER,
    outcome TEXT,
    stop_request TEXT,
    seen TEXT NOT NULL DEFAULT '{}'
) STRICT
"""
PARTIES = """
CREATE TABLE parties (
    party TEXT NOT NULL PRIMARY KEY,
    connected INTEGER NOT NULL,
    since REAL NOT NULL,
    run TEXT,
    round_id INTEGER,
    phase TEXT,
    reason TEXT NOT NULL
) STRICT
"""
TRANSCRIPTS = """
CREATE TABLE transcripts (
    run TEXT NOT NULL REFERENCES runs (run),
    position INTEGER NOT NULL CHECK (position >= 0),
    record BLOB NOT NULL,
    PRIMARY KEY (run, position)
) STRICT
"""
OTHERS = """
CREATE TABLE rounds (
    run TEXT NOT NULL REFERENCES runs (run),
    round_id INTEGER NOT NULL CHECK (round_id >= 0),
    metrics TEXT NOT NULL,
    bytes_up INTEGER NOT NULL,
    bytes_down INTEGER NOT NULL,
    seconds TEXT NOT NULL,
    ending_status TEXT,
    ending_reason TEXT,
    clients TEXT NOT NULL DEFAULT '{}',
    seen TEXT NOT NULL DEFAULT '{}',
    server TEXT NOT NULL DEFAULT '{}',
    CHECK ((ending_status IS NULL) = (ending_reason IS NULL)),
    PRIMARY KEY (run, round_id)
) STRICT;
CREATE TABLE absences (
    run TEXT NOT NULL,
    round_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    client TEXT NOT NULL,
    phase TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (run, round_id, position),
    FOREIGN KEY (run, round_id) REFERENCES rounds (run, round_id)
) STRICT;
CREATE TABLE setups (
    run TEXT NOT NULL PRIMARY KEY REFERENCES runs (run),
    public_key BLOB NOT NULL,
    layout BLOB NOT NULL
) STRICT;
CREATE TABLE snapshots (
    run TEXT NOT NULL PRIMARY KEY,
    round_id INTEGER NOT NULL,
    file TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest BLOB NOT NULL,
    FOREIGN KEY (run, round_id) REFERENCES rounds (run, round_id)
) STRICT;
"""
RUN_COLUMNS = (
    "position, run, name, config, status, reason, created, updated, attempt, key_fingerprint, key_bits, outcome, "
    "stop_request, seen"
)
UPGRADES = {
    1: ("ALTER TABLE rounds ADD COLUMN clients TEXT NOT NULL DEFAULT '{}'",),
    2: ("ALTER TABLE rounds ADD COLUMN seen TEXT NOT NULL DEFAULT '{}'",),
    3: ("ALTER TABLE runs ADD COLUMN seen TEXT NOT NULL DEFAULT '{}'",),
    # The table of runs is made anew without its list of statuses, which `RunStatus` has.
    4: (
        PARTIES,
        RUNS.replace("CREATE TABLE runs", "CREATE TABLE new_runs"),
        f"INSERT INTO new_runs ({RUN_COLUMNS}) SELECT {RUN_COLUMNS} FROM runs",  # noqa: S608 - constants
        "DROP TABLE runs",
        "ALTER TABLE new_runs RENAME TO runs",
    ),
    5: (
        "ALTER TABLE rounds ADD COLUMN server TEXT NOT NULL DEFAULT '{}'",
        "DROP TABLE parties",
        PARTIES,
    ),
    6: (TRANSCRIPTS,),
}
"""For each older version the statements that bring a database to the next version."""


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Opens an existing database without changing it; raises `NoState` if there is none.

    The caller begins and ends transactions (`isolation_level=None`), and lets one thread at a time use the connection.
    """
    if not path.is_file():
        raise NoState(f"{path.parent} has no state of a server; name the directory given to 'fenchel server --state'")
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def create_database(path: Path) -> None:
    """Makes the database with all its tables in one transaction, or brings an existing one up to date."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        if connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            _upgrade(connection)
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in (RUNS, PARTIES, TRANSCRIPTS, *OTHERS.strip().split(";\n")):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    finally:
        connection.close()


def _upgrade(connection: sqlite3.Connection) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        return
    for version in range(_pragma(connection, "user_version"), SCHEMA_VERSION):
        connection.execute("BEGIN IMMEDIATE")
        for statement in UPGRADES[version]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(f"{path} is not a database of Fenchel; name another state directory")
    version = _pragma(connection, "user_version")
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{path} has schema {version} and this Fenchel knows up to {SCHEMA_VERSION}; use the Fenchel that wrote it"
        )
    if version < SCHEMA_VERSION:
        raise StoreError(f"{path} was written by an older Fenchel; start 'fenchel server' on it, which updates it")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
