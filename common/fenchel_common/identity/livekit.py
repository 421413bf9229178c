"""The kit of a running process, which takes up a newer roster from its folder."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

from fenchel_common.errors import FenchelError
from fenchel_common.identity.kit import KIT_FILES, Kit, read_roster

WARN_DAYS_LEFT = 30
"""Warnings that a roster or certificate expires begin so many days before."""

_Stamp = tuple[tuple[int, int, int] | None, ...]

log = logging.getLogger(__name__)


class LiveKit:
    """The kit that a process uses, kept up to date from its folder. Thread-safe.

    The process takes up a roster that is whole, signed by the authority of the kit in use, not expired, and of a higher
    version, never of a lower one. It takes up a certificate and key together with the whole kit, if all files of the
    kit fit each other. Files that do not fit, for example because some are not copied yet, are ignored until the folder
    changes again.
    """

    def __init__(self, kit: Kit) -> None:
        self._lock = threading.Lock()
        self._kit = kit
        self._stamp: _Stamp | None = None
        _tell(kit)

    @classmethod
    def of(cls, kit: "Kit | LiveKit") -> "LiveKit":
        """`kit` itself if it is a LiveKit, else a new LiveKit of it."""
        return kit if isinstance(kit, LiveKit) else cls(kit)

    def look(self) -> Kit:
        """The kit to use now; reads the folder first if it has changed."""
        with self._lock:
            stamp = _stamp(self._kit.directory)
            if stamp != self._stamp:
                self._stamp = stamp
                self._take_up()
            return self._kit

    def _take_up(self) -> None:
        used = self._kit
        try:
            found = self._found()
        except (FenchelError, OSError) as error:
            log.warning("the kit in %s is not taken up, the one before it stays in use: %s", used.directory, error)
            return
        version, before = found.roster.version, used.roster.version
        if found.authority.fingerprint() != used.authority.fingerprint() or found.settings.name != used.settings.name:
            log.warning("the kit in %s belongs to another owner or federation, and is not taken up", used.directory)
        elif version < before or (version == before and found.roster != used.roster):
            log.warning(
                "the roster in %s is version %d, and is not taken up: version %d is in use; get the newest from the"
                " operator",
                used.directory,
                version,
                before,
            )
        elif found != used:
            self._kit = found
            if version > before:
                _tell(found)

    def _found(self) -> Kit:
        """The kit in the folder; if it is not whole, the kit in use with the folder's roster."""
        used = self._kit
        try:
            return Kit.load(used.directory)
        except (FenchelError, OSError):
            roster = read_roster(used.directory, used.authority)
            roster.check_time()
            return replace(used, roster=roster)


def _tell(kit: Kit) -> None:
    """Logs which roster is in use, and warns if it expires soon or lacks a key."""
    roster = kit.roster
    log.info("roster version %d is in use, fingerprint %s", roster.version, roster.fingerprint())
    if roster.days_left() < WARN_DAYS_LEFT:
        log.warning(
            "roster version %d expires on %s; the operator runs `fenchel provision --renew-within %d` and hands out"
            " the new one",
            roster.version,
            roster.not_after.date(),
            WARN_DAYS_LEFT,
        )
    if roster.keyless:
        log.warning("the roster names no key for %s yet; no run can start until it does", ", ".join(roster.keyless))
    try:
        roster.check_key(kit.certificate)
    except FenchelError as error:
        log.error("%s", error)


def _stamp(directory: Path) -> _Stamp:
    """Time, inode and size of each file of the kit; they change when a file is replaced or written."""

    def of(path: Path) -> tuple[int, int, int] | None:
        try:
            facts = path.stat()
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_ino, facts.st_size

    return tuple(of(directory / name) for name in KIT_FILES)
