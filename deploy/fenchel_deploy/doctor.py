"""What a report of a fault needs: versions, machine, clock, kit, state and last errors, and none of the secrets.

Kits are described by names, dates and fingerprints, a party's state by the names of its files. Nothing is read of keys,
models, features or rows. The last errors are those that `logs` keeps for this purpose.
"""

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from fenchel_common.errors import FenchelError
from fenchel_common.model.folder import SUFFIX
from fenchel_deploy.check import Check, Status
from fenchel_deploy.logs import read_last_errors
from fenchel_deploy.preflight import kit_checks

PACKAGES: Final = ("cryptography", "gmpy2", "grpcio", "numpy", "phe", "protobuf", "pydantic", "scipy", "typer")
SHOWN_RUNS: Final = 10
SHOWN_ERRORS: Final = 20
PARTY_FILES: Final = {
    "runs under way": ".run",
    "runs that ended with a model": SUFFIX,
    "runs with a ledger": ".ledger.json",
}
"""The files of a party's state folder that are counted, by their ends."""


def examine(kit: Path | None, states: Sequence[Path], *, now: datetime | None = None) -> Iterator[Check]:
    """Yields each finding as it is made."""
    moment = now or datetime.now(UTC)
    yield _versions()
    yield _machine()
    if kit is None:
        yield Check("clock", Status.OK, f"this machine's clock says {moment:%Y-%m-%d %H:%M:%S} UTC")
    else:
        yield from kit_checks(kit, moment)
    for state in states:
        yield _state(state)
        yield _last_errors(state)


def _versions() -> Check:
    facts = {"Python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}
    return Check("version", Status.OK, f"Fenchel {_version('fenchel')}", facts=facts)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> Check:
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    facts = {
        "cores": str(os.cpu_count()),
        "memory": f"{pages * page_bytes / 2**30:.1f} GiB",
    }
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return Check("machine", Status.OK, system, facts=facts)


def _state(folder: Path) -> Check:
    from fenchel_server.store.statedir import DATABASE_NAME

    if not folder.is_dir():
        return Check("state", Status.FAIL, f"{folder}: there is no such folder", "name the folder given as --state")
    if (folder / DATABASE_NAME).exists():
        return _server_state(folder)
    counts = {what: len(list(folder.glob(f"*{suffix}"))) for what, suffix in PARTY_FILES.items()}
    facts = {what: str(count) for what, count in counts.items()}
    if folder.stat().st_mode & 0o077:
        cure = f"chmod 700 {folder}"
        return Check("state", Status.WARN, f"{folder}: others on this machine can look into it", cure, facts)
    return Check("state", Status.OK, f"{folder}: a party's folder", facts=facts)


def _server_state(folder: Path) -> Check:
    from fenchel_server.store import SqliteStore
    from fenchel_server.store.statedir import is_served

    try:
        with SqliteStore.inspect(folder) as store:
            runs = [(record, store.last_round(record.run) or 0) for record in store.runs()]
    except FenchelError as error:
        return Check("state", Status.FAIL, str(error))
    facts: dict[str, str] = {
        record.run: f"{record.status} after {rounds} rounds and {record.attempt} attempts: {record.reason}"
        for record, rounds in runs[-SHOWN_RUNS:]
    }
    at_work = "a server uses it now" if is_served(folder) else "no server uses it now"
    return Check("state", Status.OK, f"{folder}: a server's folder with {len(runs)} runs; {at_work}", facts=facts)


def _last_errors(folder: Path) -> Check:
    entries = read_last_errors(folder)
    if not entries:
        return Check("last errors", Status.OK, f"{folder}: none on record")
    facts = {
        f"{number}, {entry.get('time')} {entry.get('level')}": f"{entry.get('message')} "
        f"(run {entry.get('run')}, round {entry.get('round')}, phase {entry.get('phase')})"
        for number, entry in enumerate(entries[-SHOWN_ERRORS:], start=1)
    }
    return Check("last errors", Status.WARN, f"{folder}: {len(entries)} on record", facts=facts)
