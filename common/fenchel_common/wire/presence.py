"""Who is missing, as the server's health service tells it beside its answer, in trailing metadata."""

import re
from collections.abc import Mapping

from fenchel_common.ids import ClientId

MISSING_METADATA_KEY = "fenchel-missing"
MAX_NAMED = 50
"""The most parties that are named; gRPC limits the length of metadata."""
_ENTRY = re.compile(r"([A-Za-z0-9_-]{1,63})=([0-9]{1,12})", re.ASCII)


def missing_to_text(missing: Mapping[ClientId, float]) -> str:
    """Each missing party with the second since 1970 from which on it is missing."""
    return " ".join(f"{party}={int(since)}" for party, since in sorted(missing.items())[:MAX_NAMED])


def missing_from_text(text: str) -> dict[ClientId, float]:
    """Reads what `missing_to_text` wrote; whatever else is in the text is left out."""
    found = (_ENTRY.fullmatch(word) for word in text.split(" ")[:MAX_NAMED])
    return {ClientId(entry[1]): float(entry[2]) for entry in found if entry}
