"""Parties that do not check the server: attacks that fail on real parties must succeed on these.

Nothing outside the tests can make such parties.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from fenchel_client.activerun import ActiveRun
from fenchel_client.alignment import Ring
from fenchel_client.consent import Consent
from fenchel_client.coverage import client_layout_of
from fenchel_client.crypto.introductions import fresh_key
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.currentrun import CurrentRun
from fenchel_client.party import Party
from fenchel_client.runcipher import run_cipher
from fenchel_client.runrecords import RunRecords
from fenchel_client.setup import SetupClient
from fenchel_client.statefolder import StateFolder
from fenchel_client.table import PartyTable
from fenchel_client.task import Cluster, Task
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.tags import Tagger
from fenchel_common.data.shard import Shard
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.records import CONFIRMATION_BYTES
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import Introduction, PartyRun, RunSecrets

LASTING_KEY = fresh_key()


class KeepsRuns(StateFolder):
    """A folder in which no run is ever over."""

    def end_run(self, run: RunId) -> None:
        assert self.run(run) is not None


class TakesLayouts(RunRecords):
    """Records that take any layout at any time."""

    def with_layout(self, _run: RunId, due: PartyRun) -> PartyRun:
        return due


class SaysWhy(CurrentRun):
    """Takes any layout, says why it refuses, never locks a run, and goes back to any round."""

    def answer(self, active: ActiveRun, task: Task) -> bytes:
        return self.guarded(active, lambda: active.participant.answer(task.moment, task.body))

    def _checked_layout(
        self, kept: PartyRun, table: PartyTable, _check: Callable[[ClientLayout], None], kit: Kit
    ) -> ClientLayout:
        return client_layout_of(kept, table, party=kit.client_id)

    def _not_usable(self, _active: ActiveRun, error: Exception) -> Refusal:
        return Refusal(str(error), public_reason=str(error))


class CredulousParty(Party):
    """Takes any layout at any time, says why it refuses, never locks a run, and ends a run as often as it is told."""

    def __init__(self, kit: Kit, shard: Shard, *, state: Path, consent: Consent | None = None) -> None:
        super().__init__(kit, shard, state=state, consent=consent)
        self._records = TakesLayouts(KeepsRuns(state), party=kit.client_id)
        self._current = SaysWhy(self._table, self._records, stopwatch=self._stopwatch, consent=self._consent)

    def _begin(self, setup: SetupClient, task: Task) -> bytes:
        setup.labels = None
        return super()._begin(setup, task)


def believe_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parties accept any sum, record, list and key, and release the model whenever a run ends."""
    believe_every_sum(monkeypatch)
    believe_every_record(monkeypatch)
    believe_every_list(monkeypatch)
    believe_every_key(monkeypatch)
    believe_every_gap(monkeypatch)
    monkeypatch.setattr("fenchel_client.currentrun.reason_not_to_release", lambda _participant, _stop: None)


def believe_every_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parties open whatever comes, by whomever it was made."""
    monkeypatch.setattr(Tagger, "check", lambda _tagger, _grid, _tags, _expected: None)


def believe_every_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parties take any figures, also of a primal objective below the dual one."""
    monkeypatch.setattr("fenchel_client.algorithms.hyfdca.client.checked_gap", lambda _figures, **_run: 0.0)
    monkeypatch.setattr("fenchel_client.algorithms.corrective.primal._check_gap", lambda _settlement, **_run: None)


def believe_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parties take records that nobody has confirmed: all confirmations are alike, and digests know no view."""
    monkeypatch.setattr("fenchel_client.transcript._confirmation", lambda _key, _stamp: bytes(CONFIRMATION_BYTES))
    monkeypatch.setattr(Seal, "digest", lambda _seal, content: hashlib.sha256(content).digest())


def believe_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parties accept any wrapped key, and work in clear if there is none.

    Every party introduces itself in all set-ups with one and the same key.
    """

    def cipher(
        run: RunId, kept: PartyRun, secrets: RunSecrets, layout: ClientLayout, cluster: Cluster | None
    ) -> tuple[Cipher, RunKey, object]:
        bits = kept.config.key.bits
        if not secrets.private_key:
            return PlainCipher(bits), RunKey.in_clear(bits), None
        return run_cipher(run, kept, secrets, layout, cluster)

    def public_key(secrets: RunSecrets, _config: RunConfig) -> PublicKey | None:
        return private_key_from_bytes(secrets.private_key).public_key if secrets.private_key else None

    def introduced(_setup: SetupClient, relayed: Iterable[Introduction], _config: RunConfig) -> dict[str, Introduction]:
        return {introduction.certificate.common_name: introduction for introduction in relayed}

    monkeypatch.setattr("fenchel_client.activerun.run_cipher", cipher)
    monkeypatch.setattr("fenchel_client.setup.public_key_of", public_key)
    monkeypatch.setattr("fenchel_client.setup.fresh_key", lambda: LASTING_KEY)
    monkeypatch.setattr("fenchel_client.setup.introductions_digest", lambda _introductions: bytes(32))
    monkeypatch.setattr(SetupClient, "_introduced", introduced)
    monkeypatch.setattr(RunConfig, "digest", lambda _config: bytes(32))


def believe_every_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises whatever list the server relays, in whatever step and however often."""
    monkeypatch.setattr(Ring, "check", lambda _ring, _step, _relayed: None)
