"""The names of all parties' features, as a party knows them: they must fit its layout, and close ones are told."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from fenchel_client.alignment.sealednames import CATEGORY, marks, opened_names
from fenchel_client.closenames import close_pairs
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.categories import missing_name, other_name
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RunId
from fenchel_common.privatelog import PRIVATE
from fenchel_common.wire.names import NameList, feature_names_from_bytes, names_read_to_bytes

SHOWN: Final = 10
NAMES_READ: Final = names_read_to_bytes()
"""The answer of a party that has opened the lists."""

log = logging.getLogger(__name__)


class FeatureNames:
    """The lists of names that the parties sealed for each other.

    Parameters
    ----------
    features
        The names of this party's own features.
    lists
        The opened lists by party; parties with very many features give none.
    clients
        All parties, in roster order.
    """

    def __init__(
        self,
        features: Sequence[str],
        lists: Mapping[ClientId, NameList],
        *,
        party: ClientId,
        clients: Sequence[ClientId],
        tag_secret: bytes,
        run: RunId,
    ) -> None:
        self._lists = lists
        self._party = party
        self._clients = tuple(clients)
        self._columns = {name.partition(CATEGORY)[0] for name in features}
        self._marks = sorted(marks(features, tag_secret=tag_secret, run=run)) if lists else []

    @classmethod
    def opened(
        cls,
        relayed: bytes,
        features: Sequence[str],
        *,
        party: ClientId,
        clients: Sequence[ClientId],
        tag_secret: bytes,
        run: RunId,
    ) -> "FeatureNames":
        """Opens the relayed lists; `Refusal` if one of them is not what that party sealed in this set-up."""
        sealed = feature_names_from_bytes(relayed)
        if not sealed.keys() <= set(clients):
            raise InvalidInput("names: lists: a party is not on the roster")
        lists = {
            client: opened_names(given, tag_secret=tag_secret, run=run, party=client)
            for client, given in sealed.items()
            if given
        }
        return cls(features, lists, party=party, clients=clients, tag_secret=tag_secret, run=run)

    def check(self, layout: ClientLayout) -> None:
        """Refuses a layout that names other holders of this party's features than the names do.

        `layout` counts features by pseudonym. Parties that gave no list are not compared.
        """
        if not self._lists:
            return
        listed = {client: frozenset(names.marks) for client, names in self._lists.items()}
        for block, positions in layout.feature_blocks.items():
            held_by = layout.feature_holders[block]
            for position in positions:
                mark = self._marks[position]
                if any((mark in own) != (client in held_by) for client, own in listed.items()):
                    raise InvalidInput("layout: feature_blocks: names other holders of a feature than hold its name")
        if len(listed) == len(self._clients):
            spread = [0] * len(self._clients)
            for mark in frozenset().union(*listed.values()):
                spread[sum(mark in own for own in listed.values()) - 1] += 1
            if tuple(spread) != layout.features_by_holders:
                raise InvalidInput("layout: features_by_holders: is not what the names of the features say")

    def hints(self) -> list[str]:
        """Sentences for this party's own log: which parties gave no list, and which names are close to others."""
        silent = [client for client in self._clients if client not in self._lists and client != self._party]
        notes = [f"names of features are not compared with {', '.join(silent)}: there is no list"] if silent else []
        pairs: dict[tuple[str, str], list[ClientId]] = {}
        for client, names in self._lists.items():
            if client == self._party:
                continue
            theirs = frozenset(names.columns)
            for pair in close_pairs(_given(self._columns - theirs), _given(theirs - self._columns)):
                pairs.setdefault(pair, []).append(client)
        # A party that has both names means two things by them.
        apart = [frozenset(names.columns) for names in self._lists.values()]
        close = {pair: held for pair, held in pairs.items() if not any(columns >= set(pair) for columns in apart)}
        notes += [
            f"this party's feature {own!r} is close to {other!r} of {', '.join(held)}: if both mean the same, give "
            "them one name and start the run anew; as it is, they are two features"
            for (own, other), held in list(close.items())[:SHOWN]
        ]
        if len(close) > SHOWN:
            notes.append(f"{len(close) - SHOWN} more names of features are close to names of other parties")
        return notes


def tell_hints(run: RunId, hints: Iterable[str]) -> None:
    """Puts sentences with names of features into this party's own log."""
    for hint in hints:
        log.warning("run %s: %s", run, hint, extra=PRIVATE)


def _given(columns: Collection[str]) -> list[str]:
    """The columns that tables have, without the features that the run makes of others among them."""
    made = {name for column in columns for name in (missing_name(column), other_name(column))}
    return sorted(set(columns) - made)
