"""A party's part in the agreement on a run's vocabulary: which features of 0 and 1 are made of which columns.

Each party offers the values of its categories that enough of its own samples have, and names its columns with missing
cells, sealed for the other parties. The vocabulary is the union of all offers.

Protects: the server sees sealed lists (`sealedlists`). It cannot withhold one: without the offers of all parties a
party goes no further, so all parties agree on the same vocabulary.

Does not protect: every party of the run learns which values another party offers.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fenchel_client.alignment.sealedlists import opened_list, sealed_list
from fenchel_client.crypto.derivedkeys import vocabulary_key
from fenchel_client.table import PartyTable
from fenchel_common.data.categories import Vocabulary
from fenchel_common.errors import DataUnfit, InvalidInput, Refusal
from fenchel_common.ids import ClientId, RunId
from fenchel_common.layout import MAX_NAME_CHARS
from fenchel_common.runsections import FeaturesConfig
from fenchel_common.wire.vocabulary import (
    MAX_SEALED_VOCABULARY_BYTES,
    start_vocabularies_from_bytes,
    vocabulary_asked_from_bytes,
    vocabulary_from_bytes,
    vocabulary_given_to_bytes,
    vocabulary_to_bytes,
)

LABEL: Final = b"fenchel/v1/sealed-vocabulary\x00"
ALTERED: Final = "it was given a vocabulary that no party of this set-up sealed"
UNFIT: Final = "its data do not fit this run"
SHOWN: Final = 10


def vocabulary_answer(
    body: bytes, table: PartyTable, config: FeaturesConfig | None, *, tag_secret: bytes, run: RunId, party: ClientId
) -> bytes:
    """The result of the phase `vocabulary`."""
    vocabulary_asked_from_bytes(body)
    if config is None:
        raise Refusal("the run has no [features], and so no vocabulary", public_reason="this run has no vocabulary")
    offered = offered_vocabulary(table, config)
    return vocabulary_given_to_bytes(sealed_vocabulary(offered, tag_secret=tag_secret, run=run, party=party))


def offered_vocabulary(table: PartyTable, config: FeaturesConfig) -> Vocabulary:
    """What the party tells the others of its own columns."""
    missing = table.missing() if config.indicators else ()
    return Vocabulary.offered(table.categories, least=config.category_samples, missing=missing)


def check_offered(offered: Vocabulary) -> None:
    """Raises `DataUnfit` if the name of a column cannot be sent."""
    for column in (*offered.values, *offered.indicators):
        if len(column) > MAX_NAME_CHARS or "\0" in column:
            raise DataUnfit(
                f"the name of column {column!r:.100} has more than {MAX_NAME_CHARS} characters, or a zero character; "
                "rename it",
                public_reason=UNFIT,
            )


def sealed_vocabulary(offered: Vocabulary, *, tag_secret: bytes, run: RunId, party: ClientId) -> bytes:
    """The offer, sealed; `DataUnfit` if it cannot be sent."""
    check_offered(offered)
    key, content = vocabulary_key(tag_secret, run), vocabulary_to_bytes(offered)
    sealed = sealed_list(content, key=key, label=LABEL, run=run, party=party)
    if len(sealed) > MAX_SEALED_VOCABULARY_BYTES:
        widest = max(offered.values, key=lambda column: len(offered.values[column]), default="")
        raise DataUnfit(
            f"the values of categories take more than {MAX_SEALED_VOCABULARY_BYTES} bytes; column {widest!r} has the "
            "most: leave it out, or let the operator raise category_samples under [features] in run.toml",
            public_reason=UNFIT,
        )
    return sealed


def agreed_vocabulary(body: bytes, *, tag_secret: bytes, run: RunId, clients: Sequence[ClientId]) -> bytes:
    """The vocabulary that follows from the task of `align_0`, which has the offers of all parties; as bytes.

    Raises `Refusal` if an offer is missing or was altered.
    """
    relayed: Mapping[ClientId, bytes] = start_vocabularies_from_bytes(body)
    if relayed.keys() != set(clients):
        raise Refusal("the server does not relay the vocabularies of all parties", public_reason=ALTERED)
    key = vocabulary_key(tag_secret, run)
    offers = []
    for party in clients:
        try:
            opened = opened_list(relayed[party], key=key, label=LABEL, run=run, party=party)
            offers.append(vocabulary_from_bytes(opened))
        except InvalidInput as error:
            raise Refusal(f"the vocabulary of {party!r} does not open: {error}", public_reason=ALTERED) from error
    return vocabulary_to_bytes(Vocabulary.union(offers))


def vocabulary_hints(table: PartyTable, agreed: bytes) -> list[str]:
    """Sentences for this party's own log: columns that are categories elsewhere and numbers here."""
    numbers = sorted(vocabulary_from_bytes(agreed).values.keys() & set(table.features))
    hints = [
        f"column {name!r} is a category at another party and numbers here; if both mean the same, declare it alike in "
        "shard.toml and start the run anew; as it is, they are different features"
        for name in numbers[:SHOWN]
    ]
    if len(numbers) > SHOWN:
        hints.append(f"{len(numbers) - SHOWN} more columns are categories at another party and numbers here")
    return hints
