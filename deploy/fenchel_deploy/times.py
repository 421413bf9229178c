"""Moments, given in seconds since 1970, as commands print them."""

from datetime import UTC, datetime


def clock_time(seconds: float) -> str:
    """The moment as people read it, in UTC."""
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def utc(seconds: float) -> str:
    """The moment for programs, in ISO 8601."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")
