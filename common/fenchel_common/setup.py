"""The messages of a run's set-up and end, and the record of a run that a party keeps.

==============  =====================  =================================  ==================================
phase           task                   result                             parties
==============  =====================  =================================  ==================================
`introduce`     the run's terms        `Introduction`                     all
`key_make`      all introductions      `KeyMade`                          the key holder
`key_take`      `KeyTake`              the fingerprint of the key         all but the key holder
`vocabulary`    nothing                sealed vocabulary                  all; only with `[features]`
`align_…`       see `wire/alignment`   see `wire/alignment`               all
`names`         sealed names of        nothing                            all
                all parties' features
`group_keys`    `ClientLayout`         keys of groups of holders, sealed  all; only in a run with masks
                                       for the other holders
`layout`        `ClientLayout`         `LayoutResult`                     all
`prepare`       `MomentSums`           `LayoutResult`                     all; only in a run that prepares
                                                                          features or labels
`search_1` …    sums of counts below   `LayoutResult`                     all; no phases unless the run searches
`search_8`      thresholds                                                for extremes or quantiles
`rows`          sums of squared        `LayoutResult`                     all; no phase unless the run divides
                lengths of rows                                           rows by their lengths
`labels`        sums of marks          whether labels differ              those that hold labels of the same
                                                                          samples; no phase if there are none
the rounds
`finish`        `ModelPart`            the weights if the roster          all
                                       releases the model to the server,
                                       or nothing
==============  =====================  =================================  ==================================
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.vectors import Vector
from fenchel_common.framing import framed
from fenchel_common.identity import Certificate
from fenchel_common.identity.certificates import MAX_CERTIFICATE_BYTES
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.ranges import STEPS
from fenchel_common.runconfig import RunConfig
from fenchel_common.scoresums import ScoreFigures

INTRODUCTIONS_LABEL = b"fenchel/v1/introductions\x00"

INTRODUCE = "introduce"
KEY_MAKE = "key_make"
KEY_TAKE = "key_take"
VOCABULARY = "vocabulary"
NAMES = "names"
GROUP_KEYS = "group_keys"
LAYOUT = "layout"
PREPARE = "prepare"
SEARCH = tuple(f"search_{step}" for step in range(1, STEPS + 1))
"""The phases of the search for extremes or quantiles."""
ROWS = "rows"
LABELS = "labels"
FINISH = "finish"

BEFORE_ROUNDS = (LAYOUT, PREPARE, *SEARCH, ROWS)
"""The phases between alignment and rounds to which every party contributes, in this order; `setup_phase_after` knows
which of them a run has."""
POINT_BYTES = 65
"""A P-256 public key as an uncompressed point."""
MAX_SIGNATURE_BYTES = 72
"""An ECDSA signature by a P-256 key, in DER form."""
SECRET_BYTES = 32
FIRST_ROUND = RoundId(0)
FIRST_STATE = b""
"""The name of the state of the model before the first round that changes it."""

NOT_USABLE = "it cannot use what it opened; its own log says why"
"""The only reason a party gives for a refusal after decryption: a more exact one could tell the server a value."""
MAX_INTRODUCTION_BYTES = MAX_CERTIFICATE_BYTES + POINT_BYTES + MAX_SIGNATURE_BYTES + 32
"""The most bytes of an introduction, with the framing of its fields."""
MAX_WRAPPED_BYTES = 96 * 1024
"""The most bytes of the run's secrets, sealed for one party."""


def setup_phase_after(phase: str, config: RunConfig) -> str | None:
    """The phase of `BEFORE_ROUNDS` that a run has next after `phase`; None if it has no further one."""
    features = config.features
    present = {
        PREPARE: config.prepares,
        **dict.fromkeys(SEARCH, config.range_scale is not None),
        ROWS: features is not None and features.rows == "unit",
    }
    later = BEFORE_ROUNDS[BEFORE_ROUNDS.index(phase) + 1 :]
    return next((one for one in later if present[one]), None)


@dataclass(frozen=True, slots=True)
class Introduction:
    """The introduction of a party in one set-up.

    `ephemeral_key` is the public half of a key pair of this set-up only, to which the key holder seals the run's
    secrets. `signature` is made with the key of the certificate over `signed_part`.
    """

    certificate: Certificate
    ephemeral_key: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def signed_part(self, *, run: RunId, roster_fingerprint: str, terms: bytes) -> bytes:
        """The bytes that the party signs; `terms` is the digest of the run's configuration that the party got."""
        roster = bytes.fromhex(roster_fingerprint)
        return framed(run.encode(), roster, terms, self.certificate.der(), self.ephemeral_key)


def introductions_digest(introductions: Iterable[Introduction]) -> bytes:
    """SHA-256 of the introductions of a set-up; `introductions` has all parties in the order of the roster."""
    parts = [(one.certificate.der(), one.ephemeral_key, one.signature) for one in introductions]
    return hashlib.sha256(INTRODUCTIONS_LABEL + framed(*(part for one in parts for part in one))).digest()


@dataclass(frozen=True, slots=True)
class KeyMade:
    """The key holder's public key and, for each other party, the sealed secrets of the run."""

    public_key: bytes
    sealed: Mapping[ClientId, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyTake:
    """One party's sealed secrets, the public key that they must match, and the introductions of all parties."""

    public_key: bytes
    wrapped: bytes = field(repr=False)
    introductions: tuple[Introduction, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A run's secrets sealed for one recipient and signed by the key holder; nothing else in it is secret.

    `terms` is the digest of the run's configuration, `introductions` the digest of all introductions of the set-up.
    """

    run: RunId
    roster_fingerprint: str
    terms: bytes
    introductions: bytes
    recipient: ClientId
    signer: ClientId
    signer_certificate: bytes = field(repr=False)
    ephemeral_key: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def context(self) -> bytes:
        """Everything that the seal and the signature are bound to, in one unambiguous string of bytes."""
        return framed(
            self.run.encode(),
            bytes.fromhex(self.roster_fingerprint),
            self.terms,
            self.introductions,
            self.recipient.encode(),
            self.signer.encode(),
            self.signer_certificate,
            self.ephemeral_key,
        )


@dataclass(frozen=True, slots=True)
class MaskSecrets:
    """What one party has of the secrets of a run with masks; nothing of it is ever sent.

    From `group_secret` it makes the keys of the groups whose first holder it is; `pairs` has the key that it has in
    common with each other party.
    """

    group_secret: bytes = field(repr=False)
    pairs: Mapping[ClientId, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The key of a group of holders, sealed by its first holder for another one."""

    holders: tuple[ClientId, ...]
    recipient: ClientId
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """The secrets that all parties of a run have and the server must not know, and `masks`, which are a party's own.

    Pseudonyms of samples (if the alignment is by HMAC) and marks of labels are made with `alignment_secret`. From
    `tag_secret` the parties derive one key for each further purpose.
    """

    private_key: bytes = field(repr=False)
    alignment_secret: bytes = field(repr=False)
    tag_secret: bytes = field(repr=False)
    masks: MaskSecrets | None = field(default=None, repr=False)

    def digest(self) -> bytes:
        """SHA-256 of the common secrets: a party recognises a key by it, and nobody can compute the secrets from it."""
        return hashlib.sha256(framed(self.private_key, self.alignment_secret, self.tag_secret)).digest()


@dataclass(frozen=True, slots=True)
class PartySetUp:
    """The record that a party keeps of the set-up under way until it has its layout, so that its process may restart.

    A party keeps it once it has the secrets. `data` is a digest of its roster, ids and features. `exponents` belong to
    the alignment by blinding parties. `start` and `names` are the tasks of the phases `align_0` and `names`, once they
    are answered.
    """

    run: RunId
    config: RunConfig
    attempt: int
    data: bytes
    introduction: Introduction
    secrets: RunSecrets = field(repr=False)
    introductions: bytes = field(default=b"", repr=False)
    pairs: Mapping[ClientId, bytes] = field(default_factory=dict, repr=False)
    exponents: tuple[bytes, bytes] = field(default=(b"", b""), repr=False)
    start: bytes = field(default=b"", repr=False)
    names: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Company:
    """The parties that contribute with a party to sums under masks, and the weights of their contributions.

    `members` is a digest of both. `state` names the state of the model that the contribution follows from.
    """

    state: bytes
    members: bytes


@dataclass(frozen=True, slots=True)
class PartyRun:
    """The record of a run that a party keeps until the run is over.

    `secrets` is None once the party has deleted the key; `key_digest` is the digest of the secrets, deleted or not.
    `layout` is the message that the party got, byte for byte, and `view` the view before the first record. `setups`
    counts the set-ups of this run that reached their layout, `refusals` the tasks that the party refused after it had
    opened something in them. `attempt` and `round` are those of the newest task that the party answered in a round, and
    `view_before` is its view before that round. `scaling` and `labels` are how features and labels are prepared, once
    the party knows it, and `vocabulary` is the agreed vocabulary, empty in a run without `[features]`. `companies` are
    those in which the party contributed from the first and from the newest state of the model, and `changes_of_company`
    counts how often it contributed from a state in another company than before.
    """

    config: RunConfig
    secrets: RunSecrets | None
    key_digest: bytes = field(repr=False)
    layout: bytes = field(repr=False)
    view: bytes = field(repr=False)
    setups: int = 1
    refusals: int = 0
    attempt: int = 0
    round: RoundId = FIRST_ROUND
    view_before: bytes = field(default=b"", repr=False)
    scaling: bytes = field(default=b"", repr=False)
    vocabulary: bytes = field(default=b"", repr=False)
    labels: bytes = field(default=b"", repr=False)
    companies: tuple[Company, ...] = ()
    changes_of_company: int = 0


@dataclass(frozen=True, slots=True)
class LayoutResult:
    """The algorithm's preparation, and the marks of the labels of samples whose labels other parties hold too.

    `seed` is the seed of the run, which the parties derive from their secret; None if the terms name one. In a run that
    prepares features or labels, a party answers to its layout with seed, `moments` and `label_moments`, and gives
    preparation and marks in the last phase of the set-up. `moments` are the encrypted moments of its features that
    others hold too, `label_moments` those of the labels that it gives. `counts` are the encrypted numbers of values
    below the thresholds of the next step of a search, for its features that others hold too. If the run divides rows by
    their lengths, the party gives `lengths`, the encrypted squares of its parts of rows that others hold too, in the
    phase before `rows`.
    """

    preparation: bytes = field(repr=False)
    marks: BlockVector | None
    seed: int | None = None
    moments: tuple[BlockVector, ...] = ()
    label_moments: Vector | None = None
    lengths: BlockVector | None = None
    counts: tuple[BlockVector, ...] = ()


@dataclass(frozen=True, slots=True)
class MomentSums:
    """The sums of moments for one party, and the record of the phase in which the moments were given.

    `features` are those over the holders of its features, `labels` those over all parties with labels.
    """

    features: tuple[BlockVector, ...]
    labels: Vector | None
    record: bytes


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The state from which a party's algorithm computes the weights of its features, and the last certificate.

    `figures` say how well the model predicts, if the parties have measured it.
    """

    state: bytes = field(repr=False)
    primal: float | None
    dual: float | None
    gap: float | None
    figures: ScoreFigures | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that a party spent on a task, and the most memory that its process has used so far (0: unknown).

    A party reports each of the times in steps of 10 ms. `cpu_s` is CPU time of all its threads since its last result;
    it includes nonces that the party made ahead while it waited for the task.
    """

    encrypt_s: float = 0.0
    decrypt_s: float = 0.0
    compute_s: float = 0.0
    serialise_s: float = 0.0
    peak_memory_bytes: int = 0
    cpu_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.encrypt_s + self.decrypt_s + self.compute_s + self.serialise_s
