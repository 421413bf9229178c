"""The cipher and the key of a run in words."""


def key_in_words(bits: int | None, *, cipher: str | None, fingerprint: str | None = None) -> str:
    """The cipher and the key of a run; a run with Paillier encryption has no key before its set-up is over."""
    if cipher is None:
        return "none: PLAINTEXT"
    if cipher == "masks":
        return "masks, with keys that only parties have"
    if bits:
        return f"paillier, {bits} bits" + (f", {fingerprint}" if fingerprint else "")
    return "paillier, no key yet: the set-up is not over"
