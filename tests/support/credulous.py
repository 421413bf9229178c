"""Parties that do not check the server: attacks that fail on real parties must succeed on these."""

from pathlib import Path

import pytest

from fenchel_client import activerun
from fenchel_client.activerun import ActiveRun
from fenchel_client.consent import Consent
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.currentrun import CurrentRun
from fenchel_client.party import Party
from fenchel_client.runrecords import RunRecords
from fenchel_client.statefolder import StateFolder
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import Introduction, PartyRun, RunSecrets


class KeepsRuns(StateFolder):
    """A folder in which no run is ever over."""

    def end_run(self, run: RunId) -> None:
        assert self.run(run) is not None


class TakesLayouts(RunRecords):
    """Records that take any layout at any time."""

    def with_layout(self, _run: RunId, due: PartyRun) -> PartyRun:
        return due


class SaysWhy(CurrentRun):
    """Takes any layout, says why it refuses, and never locks a run."""

    def _check_layout(self, kept: PartyRun, _kit: Kit) -> None:
        assert kept.layout

    def _not_usable(self, _active: ActiveRun, error: Exception) -> Refusal:
        return Refusal(str(error), public_reason=str(error))


class CredulousParty(Party):
    """Takes any layout at any time, says why it refuses, never locks a run, and ends a run as often as it is told."""

    def __init__(self, kit: Kit, shard: Shard, *, state: Path, consent: Consent | None = None) -> None:
        super().__init__(kit, shard, state=state, consent=consent)
        self._records = TakesLayouts(KeepsRuns(state), party=kit.client_id)
        self._current = SaysWhy(self._table, self._records, stopwatch=self._stopwatch, consent=self._consent)


def believe_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parties accept any wrapped key, and work in clear if there is none."""
    encrypted = activerun._cipher

    def cipher(
        run: RunId, config: RunConfig, secrets: RunSecrets, layout: ClientLayout
    ) -> tuple[Cipher, RunKey, object]:
        if not secrets.private_key:
            return PlainCipher(config.key.bits), RunKey.in_clear(config.key.bits), None
        return encrypted(run, config, secrets, layout)

    def public_key(secrets: RunSecrets, _config: RunConfig) -> PublicKey | None:
        return private_key_from_bytes(secrets.private_key).public_key if secrets.private_key else None

    monkeypatch.setattr(activerun, "_cipher", cipher)
    monkeypatch.setattr("fenchel_client.setup.public_key_of", public_key)
    monkeypatch.setattr(Introduction, "binding", lambda _introduction, _config: bytes(32))
