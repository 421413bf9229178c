"""The names of features that a party shows to the other parties, and to nobody else.

Protects: the server sees sealed lists (`sealedlists`); it can withhold one.

Does not protect: every party of the run learns the names of every other party's columns. The values of categories are
left out, because a value can be that of one person; of each feature there is a mark, by which a party recognises a
feature that it has itself.
"""

from collections.abc import Sequence
from typing import Final

from fenchel_client.alignment.names import pseudonyms
from fenchel_client.alignment.sealedlists import opened_list, sealed_list
from fenchel_client.crypto.derivedkeys import sealed_names_key
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.names import (
    MARK_BYTES,
    MAX_SEALED_NAMES_BYTES,
    NameList,
    name_list_from_bytes,
    name_list_to_bytes,
)

LABEL: Final = b"fenchel/v1/sealed-names\x00"
CATEGORY: Final = "="
"""Stands between the column and the value in the name of a category's feature."""
ALTERED: Final = "it was given a list of names that no party of this set-up sealed"


def marks(names: Sequence[str], *, tag_secret: bytes, run: RunId) -> list[bytes]:
    """The mark of each name, in order."""
    return [bytes.fromhex(name)[:MARK_BYTES] for name in pseudonyms(names, tag_secret=tag_secret, run=run)]


def sealed_names(names: Sequence[str], *, tag_secret: bytes, run: RunId, party: ClientId) -> bytes:
    """This party's list, sealed; empty if it would be too long to send."""
    if len(names) * MARK_BYTES > MAX_SEALED_NAMES_BYTES:
        return b""
    columns = {column for name in names if (column := name.partition(CATEGORY)[0])}
    own = NameList(tuple(sorted(columns)), tuple(sorted(marks(names, tag_secret=tag_secret, run=run))))
    key = sealed_names_key(tag_secret, run)
    sealed = sealed_list(name_list_to_bytes(own), key=key, label=LABEL, run=run, party=party)
    return sealed if len(sealed) <= MAX_SEALED_NAMES_BYTES else b""


def opened_names(sealed: bytes, *, tag_secret: bytes, run: RunId, party: ClientId) -> NameList:
    """The list of a party; `Refusal` if that party did not seal it in this set-up."""
    key = sealed_names_key(tag_secret, run)
    try:
        return name_list_from_bytes(opened_list(sealed, key=key, label=LABEL, run=run, party=party))
    except InvalidInput as error:
        raise Refusal(f"the list of names of {party!r} does not open: {error}", public_reason=ALTERED) from error
