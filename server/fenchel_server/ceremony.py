"""The server's part of the key ceremony: it relays sealed secrets between the parties, and cannot open them."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import ResultRejected
from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, KEY_MAKE, KEY_TAKE, Introduction, KeyMade, KeyTake
from fenchel_common.wire.ceremony import introductions_to_bytes
from fenchel_common.wire.setup import (
    introduction_from_bytes,
    key_made_from_bytes,
    key_take_to_bytes,
    key_taken_from_bytes,
    terms_to_bytes,
)
from fenchel_server.contract import PhaseRequest
from fenchel_server.rejection import read_or_reject

CEREMONY_PHASES: Final = (INTRODUCE, KEY_MAKE, KEY_TAKE)


class KeyCeremony:
    """One ceremony: every party introduces itself, the key holder makes the key, the other parties take it.

    Attributes
    ----------
    public_key
        The key that the key holder made; empty before that, and in a run in clear.
    """

    def __init__(self, config: RunConfig, roster: Roster) -> None:
        self.public_key = b""
        self._config = config
        self._roster = roster
        self._introductions: tuple[Introduction, ...] = ()

    def begin(self) -> PhaseRequest:
        return PhaseRequest(INTRODUCE, dict.fromkeys(self._roster.names, terms_to_bytes(self._config)))

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | None:
        """The next phase; None once every party has the key."""
        if phase == INTRODUCE:
            return self._ask_for_key(results)
        if phase == KEY_MAKE:
            return self._relay_key(results)
        assert phase == KEY_TAKE, "the last phase of the ceremony"
        self._check_keys(results)
        return None

    def _ask_for_key(self, results: Mapping[ClientId, bytes]) -> PhaseRequest:
        names = self._roster.names
        self._introductions = tuple(read_or_reject(name, introduction_from_bytes, results[name]) for name in names)
        return PhaseRequest(KEY_MAKE, {self._roster.key_holder.name: introductions_to_bytes(self._introductions)})

    def _relay_key(self, results: Mapping[ClientId, bytes]) -> PhaseRequest | None:
        holder = self._roster.key_holder.name
        made = read_or_reject(holder, key_made_from_bytes, results[holder])
        self._check_made(holder, made)
        self.public_key = made.public_key
        if not made.sealed:
            return None
        tasks = {
            party: key_take_to_bytes(KeyTake(made.public_key, blob, self._introductions))
            for party, blob in made.sealed.items()
        }
        return PhaseRequest(KEY_TAKE, tasks)

    def _check_made(self, holder: ClientId, made: KeyMade) -> None:
        if set(made.sealed) != set(self._roster.names) - {holder}:
            raise ResultRejected(holder, "sealed secrets are due for every other party of the roster, and for no other")
        if not self._config.has_paillier_key:
            if made.public_key:
                raise ResultRejected(holder, "a run without Paillier encryption has no such key")
        elif read_or_reject(holder, PublicKey.from_bytes, made.public_key).bits != self._config.key.bits:
            raise ResultRejected(holder, f"the key must have the {self._config.key.bits} bits of the configuration")

    def _check_keys(self, results: Mapping[ClientId, bytes]) -> None:
        expected = PublicKey.from_bytes(self.public_key).fingerprint if self.public_key else b""
        for party, body in results.items():
            if read_or_reject(party, key_taken_from_bytes, body) != expected:
                raise ResultRejected(party, "its key is not the one that the key holder made")
