"""The mark of entries in a party's log that are for its own operator alone."""

from typing import Final

PRIVATE: Final = {"private": True}
"""Given as `extra` of an entry that names columns, rows or counts of the party's own data.

The entry stays out of the file of last errors, which operators send to others.
"""
