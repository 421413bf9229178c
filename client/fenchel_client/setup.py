"""A party's half of a run's set-up: the key ceremony and the alignment.

The party trusts its own kit and data. Of what the server relays it believes what its own authority and roster confirm.
"""

import logging
import secrets
from dataclasses import dataclass, field
from typing import Final

from fenchel_client.alignment import AlignmentClient, ArrangedShard
from fenchel_client.crypto.keyfile import private_key_from_bytes, private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind
from fenchel_client.crypto.keywrap import WrappedKey, recipients_of, unwrap, wrap
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.row_leak import row_leak, row_leak_warning
from fenchel_common.algorithms.settings import Privacy
from fenchel_common.errors import CryptoError, IdentityError, InvalidInput, Refusal
from fenchel_common.identity import Kit, Roster
from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, KEY_MAKE, KEY_TAKE, KeyMade, RunSecrets
from fenchel_common.wire.alignment import AlignmentMethod
from fenchel_common.wire.ceremony import certificates_from_bytes
from fenchel_common.wire.setup import (
    introduction_to_bytes,
    key_made_to_bytes,
    key_take_from_bytes,
    key_taken_to_bytes,
    secrets_from_bytes,
    secrets_to_bytes,
    terms_from_bytes,
)

ALIGNMENT_SECRET_BYTES = 32
TRUST_KIT = "kit"
"""In the place of a fingerprint: approves whatever roster the kit has, for those who provision by themselves."""
LEVELS: Final[tuple[Privacy, ...]] = ("sealed", "paper", "plain")
"""From the one that shows the server the least to the one that shows it everything."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Consent:
    """What the party's operator agreed to beyond the defaults.

    `approved_roster` is the fingerprint of the roster for which a key holder may make and wrap a key, or `TRUST_KIT`.
    `accepts` is the weakest privacy level of the runs that the party takes part in.
    """

    approved_roster: str | None = None
    accepts: Privacy = "sealed"

    def approves(self, roster: Roster) -> bool:
        """Whether a key holder may make keys for everyone on this roster."""
        return self.approved_roster in (TRUST_KIT, roster.fingerprint())


@dataclass(slots=True)
class SetupClient:
    """Answers the set-up phases of one run, up to the layout."""

    kit: Kit
    shard: ArrangedShard
    run: RunId
    consent: Consent
    config: RunConfig | None = None
    secrets: RunSecrets | None = field(default=None, repr=False)
    _alignment: AlignmentClient | None = None

    def answer(self, phase: str, body: bytes) -> bytes:
        if phase == INTRODUCE:
            return self._introduce(body)
        if self.config is None:
            raise Refusal(
                f"{phase} came before the terms of run {self.run}: this process started after the set-up began",
                public_reason="it restarted during the set-up",
            )
        if phase == KEY_MAKE:
            return self._make_key(body, self.config)
        if phase == KEY_TAKE:
            return self._take_key(body)
        return self._aligning(self.config).answer(phase, body)

    def _introduce(self, body: bytes) -> bytes:
        config = terms_from_bytes(body)
        try:
            self.kit.verify()
        except IdentityError as error:
            raise Refusal(str(error), public_reason="its certificate or its roster is not valid any more") from error
        self._check_level(config)
        self.config = config
        return introduction_to_bytes(self.kit.certificate)

    def _check_level(self, config: RunConfig) -> None:
        """Refuses a run that shows the server more than the operator agreed to; warns of one that can leak rows."""
        in_clear = SETTINGS[config.algorithm].profile.sealed
        if config.privacy == "paper" and not in_clear:
            return  # Of such an algorithm the server sees the same as at the level `sealed`.
        if LEVELS.index(config.privacy) > LEVELS.index(self.consent.accepts):
            kind, seen = "without encryption", "every value"
            if config.privacy == "paper":
                kind, seen = "at the level paper", f"{', '.join(in_clear)}, and may work out rows from them"
            raise Refusal(
                f"the server asks for a run {kind}, in which it sees {seen}; "
                f"start the client with --accept {config.privacy} if that is meant",
                public_reason=f"it does not accept runs {kind}",
            )
        if (reason := row_leak(config.algorithm_settings(), width=len(self.shard.features))) is not None:
            log.warning("%s", row_leak_warning(reason))

    def _make_key(self, body: bytes, config: RunConfig) -> bytes:
        roster = self.kit.roster
        if roster.key_holder.name != self.kit.name:
            raise Refusal(
                "the server asks this party for the key, but the roster names another key holder",
                public_reason="it is not the roster's key holder",
            )
        if not self.consent.approves(roster):
            raise Refusal(
                f"this party makes the key for everyone on the roster ({', '.join(roster.names)}), and nobody has "
                f"approved that here; if they are right, start the client with --approve-roster {roster.fingerprint()}",
                public_reason="its operator has not approved the roster",
            )
        try:
            recipients = recipients_of(certificates_from_bytes(body), roster=roster, authority=self.kit.authority)
        except (IdentityError, InvalidInput) as error:
            raise Refusal(str(error), public_reason="the relayed certificates are not those of the roster") from error
        public_key = b""
        private_key = b""
        if config.privacy != "plain":
            key = generate_private_key(config.key.bits, KeyKind(config.key.kind))
            public_key, private_key = key.public_key.to_bytes(), private_key_to_bytes(key)
        self.secrets = RunSecrets(private_key, secrets.token_bytes(ALIGNMENT_SECRET_BYTES))
        sealed = {
            party: wrap(
                secrets_to_bytes(self.secrets),
                recipient_cert=certificate,
                signer_key=self.kit.private_key(),
                signer_cert=self.kit.certificate,
                roster_fingerprint=roster.fingerprint(),
                run=self.run,
            ).to_bytes()
            for party, certificate in recipients.items()
            if party != self.kit.name
        }
        return key_made_to_bytes(KeyMade(public_key, sealed))

    def _take_key(self, body: bytes) -> bytes:
        take = key_take_from_bytes(body)
        try:
            opened = unwrap(
                WrappedKey.from_bytes(take.wrapped),
                recipient=self.kit.client_id,
                recipient_key=self.kit.private_key(),
                authority=self.kit.authority,
                roster=self.kit.roster,
                run=self.run,
            )
            self.secrets = secrets_from_bytes(opened)
            fingerprint = b""
            if self.secrets.private_key:
                public = private_key_from_bytes(self.secrets.private_key).public_key
                fingerprint = public.fingerprint
                if public.to_bytes() != take.public_key:
                    raise InvalidInput("the server's public key is not the one of the wrapped private key")
        except (CryptoError, InvalidInput) as error:
            raise Refusal(str(error), public_reason=f"it refused the run's key: {error}") from error
        return key_taken_to_bytes(fingerprint)

    def _aligning(self, config: RunConfig) -> AlignmentClient:
        if self._alignment is None:
            if self.secrets is None:
                raise Refusal("the alignment came before the key", public_reason="it has no key for this run")
            method = AlignmentMethod(config.alignment)
            secret = self.secrets.alignment_secret if method is AlignmentMethod.HMAC else None
            self._alignment = AlignmentClient(self.shard, run=self.run, method=method, shared_secret=secret)
        return self._alignment
