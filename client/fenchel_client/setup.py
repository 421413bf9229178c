"""A party's half of a run's set-up: the key ceremony and the alignment.

The party trusts its own kit and its own data. It verifies relayed introductions and keys with its own
authority and roster, and relayed lists by their tags.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from fenchel_client.alignment import (
    AlignmentClient,
    Blinding,
    BlindingSecrets,
    Ring,
    agreed_vocabulary,
    pseudonyms,
    run_table,
    vocabulary_answer,
    vocabulary_hints,
    ways_of,
)
from fenchel_client.consent import Consent
from fenchel_client.crypto.derivedkeys import ring_key
from fenchel_client.crypto.groupkeys import fresh_mask_secrets, pair_secrets
from fenchel_client.crypto.introductions import (
    fresh_key,
    introduce,
    verified_introductions,
)
from fenchel_client.crypto.keywrap import unwrap, wrap
from fenchel_client.featurenames import NAMES_READ, FeatureNames, tell_hints
from fenchel_client.groupphase import group_keys_made
from fenchel_client.labels import LabelComparison
from fenchel_client.runsecrets import fresh_secrets, public_key_of
from fenchel_client.table import PartyTable
from fenchel_client.terms import check_terms
from fenchel_common.errors import CryptoError, IdentityError, InvalidConfig, InvalidInput, Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import (
    GROUP_KEYS,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    NAMES,
    VOCABULARY,
    Introduction,
    KeyMade,
    MaskSecrets,
    RunSecrets,
    introductions_digest,
)
from fenchel_common.wire.alignment import AlignmentMethod, phase_name
from fenchel_common.wire.ceremony import introductions_from_bytes, wrapped_key_from_bytes, wrapped_key_to_bytes
from fenchel_common.wire.setup import (
    introduction_to_bytes,
    key_made_to_bytes,
    key_take_from_bytes,
    key_taken_to_bytes,
    secrets_from_bytes,
    secrets_to_bytes,
    terms_from_bytes,
)

FIRST_ALIGNMENT: Final = phase_name(0)
NOT_INTRODUCED = "the relayed introductions are not those of this roster, run and configuration"


@dataclass(slots=True)
class SetupClient:
    """Answers the set-up phases of one run, up to the layout; `labels` is made then, and answers the phase after it.

    `own_table` is the party's own; `table` is that of this run, with the features of its vocabulary, from `align_0` on.
    """

    kit: Kit
    own_table: PartyTable
    run: RunId
    consent: Consent
    table: PartyTable = field(init=False)
    config: RunConfig | None = None
    secrets: RunSecrets | None = field(default=None, repr=False)
    introductions: bytes | None = field(default=None, repr=False)
    """The digest of the introductions of this set-up, once this party has verified them."""
    names: FeatureNames | None = field(default=None, repr=False)
    labels: LabelComparison | None = None
    vocabulary: bytes = field(default=b"", repr=False)
    """The vocabulary that the parties agreed on; empty in a run without `[features]`."""
    masks: MaskSecrets | None = field(default=None, repr=False)
    """This party's own secrets, in a run with masks."""
    _alignment: AlignmentClient | None = None
    introduction: Introduction | None = field(default=None, repr=False)
    exponents: BlindingSecrets | None = field(default=None, repr=False)
    """This party's exponents, in the alignment by blinding parties."""
    start_task: bytes = field(default=b"", repr=False)
    names_task: bytes = field(default=b"", repr=False)
    """The tasks of `align_0` and `names`, once they are answered."""
    pairs: Mapping[ClientId, bytes] = field(default_factory=dict, repr=False)
    """The secrets that this party has in common with each of those that it needs one with."""
    _ephemeral: ec.EllipticCurvePrivateKey | None = field(default=None, repr=False)
    """The private half of the key to which this party's secrets are sealed, until the party has opened them."""

    def __post_init__(self) -> None:
        self.table = self.own_table

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
            return self._take_key(body, self.config)
        if phase == NAMES:
            return self.read_names(body)
        if phase == VOCABULARY:
            return self._offer_vocabulary(body, self.config)
        if phase == FIRST_ALIGNMENT and self._alignment is None:
            self.begin_alignment(body, self.config)
        if phase == GROUP_KEYS:
            return group_keys_made(
                body,
                self.masks,
                kit=self.kit,
                table=self.table,
                run=self.run,
                config=self.config,
                introductions=self.introductions,
            )
        if self._alignment is None:
            raise Refusal(f"{phase} came before {FIRST_ALIGNMENT}", public_reason="it has not begun the alignment")
        return self._alignment.answer(phase, body)

    def features_by_pseudonym(self) -> dict[str, str]:
        """The names of this party's features, once it has the run's secrets."""
        assert self.secrets is not None, "the party has made the run's secrets or taken them"
        names = self.table.features
        return dict(zip(pseudonyms(names, tag_secret=self.secrets.tag_secret, run=self.run), names, strict=True))

    def _offer_vocabulary(self, body: bytes, config: RunConfig) -> bytes:
        secret, party = self._secrets(VOCABULARY).tag_secret, self.kit.client_id
        return vocabulary_answer(body, self.own_table, config.features, tag_secret=secret, run=self.run, party=party)

    def _agree_on_vocabulary(self, body: bytes, config: RunConfig) -> None:
        """Makes the table of this run, with the features on which the parties agree."""
        if config.features is not None:
            secret, clients = self._secrets(VOCABULARY).tag_secret, self.kit.roster.names
            self.vocabulary = agreed_vocabulary(body, tag_secret=secret, run=self.run, clients=clients)
            tell_hints(self.run, vocabulary_hints(self.own_table, self.vocabulary))
        self.table = run_table(self.own_table, config, self.vocabulary)

    def _secrets(self, phase: str) -> RunSecrets:
        if self.secrets is None:
            raise Refusal(f"{phase} came before the key", public_reason="it has no key for this run")
        return self.secrets

    def read_names(self, body: bytes) -> bytes:
        """Opens the lists of names of all parties, for the comparison with the layout."""
        self.names = FeatureNames.opened(
            body,
            self.table.features,
            party=self.kit.client_id,
            clients=self.kit.roster.names,
            tag_secret=self._secrets(NAMES).tag_secret,
            run=self.run,
        )
        tell_hints(self.run, self.names.hints())
        self.names_task = body
        if self._alignment is not None:
            self._alignment.close()
        return NAMES_READ

    def _introduce(self, body: bytes) -> bytes:
        try:
            config = terms_from_bytes(body)
        except InvalidConfig as error:
            raise Refusal(f"this party cannot take part in the run: {error}", public_reason=str(error)) from error
        try:
            self.kit.verify()
        except IdentityError as error:
            raise Refusal(str(error), public_reason="its certificate or its roster is not valid any more") from error
        check_terms(config, self.consent, self.own_table)
        self.config = config
        self._ephemeral = fresh_key()
        self.introduction = introduce(self.kit, self._ephemeral.public_key(), run=self.run, terms=config.digest())
        return introduction_to_bytes(self.introduction)

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
            introduced = self._introduced(introductions_from_bytes(body), config)
        except (IdentityError, InvalidInput) as error:
            raise Refusal(str(error), public_reason=NOT_INTRODUCED) from error
        introductions = introductions_digest(introduced.values())
        if self.secrets is None:
            self.secrets, self.introductions = fresh_secrets(config), introductions
        if self.introductions != introductions:
            raise Refusal(
                "the server relays a second list of introductions in one set-up", public_reason=NOT_INTRODUCED
            )
        self._agree_on_pairs(introduced, config)
        public_key = public_key_of(self.secrets, config)
        wrapped_for = partial(
            wrap,
            secrets_to_bytes(self.secrets),
            signer_key=self.kit.private_key(),
            signer_cert=self.kit.certificate,
            roster_fingerprint=roster.fingerprint(),
            run=self.run,
            terms=config.digest(),
            introductions=introductions,
        )
        sealed = {
            party: wrapped_key_to_bytes(wrapped_for(recipient=introduction))
            for party, introduction in introduced.items()
            if party != self.kit.name
        }
        return key_made_to_bytes(KeyMade(b"" if public_key is None else public_key.to_bytes(), sealed))

    def _take_key(self, body: bytes, config: RunConfig) -> bytes:
        if self._ephemeral is None:
            raise Refusal("the server hands a key over a second time", public_reason="it has the key of this set-up")
        try:
            take = key_take_from_bytes(body)
            introduced = self._introduced(take.introductions, config)
            introductions = introductions_digest(introduced.values())
            opened = unwrap(
                wrapped_key_from_bytes(take.wrapped),
                recipient=self.kit.client_id,
                recipient_key=self._ephemeral,
                authority=self.kit.authority,
                roster=self.kit.roster,
                run=self.run,
                terms=config.digest(),
                introductions=introductions,
            )
            # Secrets of masks are each party's own.
            taken = replace(secrets_from_bytes(opened), masks=None)
            public = public_key_of(taken, config)
            if (b"" if public is None else public.to_bytes()) != take.public_key:
                raise InvalidInput("the server's public key is not the one of the wrapped private key")
        except (CryptoError, IdentityError, InvalidInput) as error:
            raise Refusal(str(error), public_reason=f"it refused the run's key: {error}") from error
        self.secrets, self.introductions = taken, introductions
        self._agree_on_pairs(introduced, config)
        return key_taken_to_bytes(b"" if public is None else public.fingerprint)

    def _agree_on_pairs(self, introduced: Mapping[ClientId, Introduction], config: RunConfig) -> None:
        """Makes the secrets that this party has in common with other parties, and forgets its key of this set-up.

        Nothing that was sealed to that key opens again, here or for whoever takes this machine later.
        """
        own, party = self._ephemeral, self.kit.client_id
        if own is not None and (config.has_masks or config.alignment == AlignmentMethod.BLINDERS.value):
            others = set(introduced) - {party} if config.has_masks else ways_of(self.kit.roster).neighbours(party)
            self.pairs = pair_secrets(own, introduced, others, party=party, run=self.run)
            self.masks = fresh_mask_secrets(self.pairs) if config.has_masks else None
        self._ephemeral = None

    def _introduced(self, relayed: Iterable[Introduction], config: RunConfig) -> Mapping[ClientId, Introduction]:
        """The relayed introductions, verified; this party's own must be among them."""
        introduced = verified_introductions(
            relayed, roster=self.kit.roster, authority=self.kit.authority, run=self.run, terms=config.digest()
        )
        if introduced[self.kit.client_id] != self.introduction:
            raise InvalidInput("the server relays an introduction that this party gave in another set-up")
        return introduced

    def begin_alignment(self, body: bytes, config: RunConfig) -> None:
        """Makes the alignment of this set-up, of the features on which the parties agree by the task of `align_0`."""
        self._agree_on_vocabulary(body, config)
        self.start_task = body
        secrets, method = self._secrets(FIRST_ALIGNMENT), AlignmentMethod(config.alignment)
        key = ring_key(secrets.tag_secret, self.run)
        blinding = None
        if method is AlignmentMethod.BLINDERS:
            self.exponents = self.exponents or BlindingSecrets.fresh()
            blinding = Blinding(
                ways_of(self.kit.roster),
                self.kit.client_id,
                self.table.ids,
                run=self.run,
                pairs=self.pairs,
                exponents=self.exponents,
            )
        self._alignment = AlignmentClient(
            self.table,
            run=self.run,
            method=method,
            tag_secret=secrets.tag_secret,
            ring=Ring(self.kit.roster.names, self.kit.client_id, key=key, run=self.run),
            blinding=blinding,
            shared_secret=secrets.alignment_secret if method is AlignmentMethod.HMAC else None,
        )
