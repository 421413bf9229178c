"""Several strings of bytes as one, without ambiguity: what is hashed, signed or sealed."""


def framed(*parts: bytes) -> bytes:
    """The parts end to end, each with its length before it, so that no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
