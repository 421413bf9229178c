"""Facts about runs in words that several commands use."""

from fenchel_common.privacy import Privacy
from fenchel_server.store import RunRecord, RunStatus

INTERRUPTED = "interrupted"
"""Shown in place of `running` if no server process is at work on the run."""


def key_in_words(bits: int | None, *, privacy: str, fingerprint: str | None = None) -> str:
    """The key of a run; a run that encrypts has none before its set-up is over."""
    if bits:
        return f"{bits} bits" + (f", {fingerprint}" if fingerprint else "")
    return "none: PLAINTEXT" if privacy == Privacy.PLAIN else "none: the set-up is not over"


def shown_status(record: RunRecord, *, served: bool) -> str:
    """The status of a run as people see it; `served` says whether a server process uses the state folder."""
    return INTERRUPTED if record.status is RunStatus.RUNNING and not served else str(record.status)


def shown_reason(record: RunRecord, *, served: bool) -> str:
    """The reason on record, or what to do about a run whose server has gone."""
    if shown_status(record, served=served) == INTERRUPTED:
        return "no server works on it now; start the server again, and it continues after the last committed round"
    return record.reason
