"""What the parties and the server agree on before the first round, and what they part with after the last.

introduce    RunTerms          → Introduction    every party
key_make     certificates      → KeyMade         the key holder
key_take     KeyTake           → KeyTaken        every other party
align_…      (see wire/alignment)                every party
layout       ClientLayout      → LayoutResult    every party
labels       sums of marks     → whether labels differ    parties that share labels of a sample; left out if none do
…rounds…
finish       ModelPart         → ModelRelease, empty unless the roster releases the model to the server
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.blocks import BlockVector
from fenchel_common.identity import Certificate
from fenchel_common.ids import ClientId, RunId
from fenchel_common.runconfig import RunConfig

INTRODUCE = "introduce"
KEY_MAKE = "key_make"
KEY_TAKE = "key_take"
LAYOUT = "layout"
LABELS = "labels"
FINISH = "finish"

NONCE_BYTES = 32

NOT_USABLE = "it cannot use what it opened; its own log says why"
"""A party's words for every refusal after decryption: which reason it was could tell the server of the value."""
MAX_WRAPPED_BYTES = 96 * 1024
"""What the run's secrets, sealed for one party, may take."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """The certificate under which a party wants the key, and 32 random bytes that belong to one set-up alone."""

    certificate: Certificate
    nonce: bytes = field(repr=False)

    def binding(self, config: RunConfig) -> bytes:
        """What secrets are sealed to, beside the recipient's key: the terms, and this very set-up."""
        return hashlib.sha256(config.digest() + self.nonce).digest()


@dataclass(frozen=True, slots=True)
class KeyMade:
    """The key holder's public key and, for each other party, the sealed secrets of the run."""

    public_key: bytes
    sealed: Mapping[ClientId, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyTake:
    """One party's sealed secrets, and the public key that they must match."""

    public_key: bytes
    wrapped: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A private key sealed for one recipient and signed by the key holder; nothing in it is secret."""

    run: RunId
    roster_fingerprint: str
    terms: bytes
    recipient: ClientId
    signer: ClientId
    signer_certificate: bytes = field(repr=False)
    ephemeral_key: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def context(self) -> bytes:
        """Everything that the seal and the signature are bound to, in one unambiguous string of bytes."""
        fields = (
            self.run.encode(),
            bytes.fromhex(self.roster_fingerprint),
            self.terms,
            self.recipient.encode(),
            self.signer.encode(),
            self.signer_certificate,
            self.ephemeral_key,
        )
        return b"".join(len(part).to_bytes(4, "big") + part for part in fields)


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """What all parties of a run share and the server must not know.

    Pseudonyms (where the alignment is by HMAC) and marks of labels are made with `alignment_secret`.
    """

    private_key: bytes = field(repr=False)
    alignment_secret: bytes = field(repr=False)

    def digest(self) -> bytes:
        """SHA-256 by which a key is known again; it tells nothing of the secrets, which cannot be guessed."""
        return hashlib.sha256(hashlib.sha256(self.private_key).digest() + self.alignment_secret).digest()


@dataclass(frozen=True, slots=True)
class PartyRun:
    """What a party keeps of a run that is not over.

    There are no `secrets` once the party has given the key up; `key_digest` is that of the secrets it has or had.
    `layout` is the message that it was given, byte for byte. `setups` counts the set-ups of this run that came to
    their layout, `refusals` the tasks that were refused after something in them was opened.
    """

    config: RunConfig
    secrets: RunSecrets | None
    key_digest: bytes = field(repr=False)
    layout: bytes = field(repr=False)
    setups: int = 1
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class LayoutResult:
    """The algorithm's preparation, and the marks of the labels of samples whose labels other parties hold too."""

    preparation: bytes = field(repr=False)
    marks: BlockVector | None


@dataclass(frozen=True, slots=True)
class ModelPart:
    """What a party's algorithm makes the weights of its features of, and the last certificate.

    `first_holder_of` are, where noise is due, the party's blocks of features to whose weights it is to add it.
    """

    state: bytes = field(repr=False)
    primal: float | None
    dual: float | None
    gap: float | None
    first_holder_of: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that a party spent on a task, and the most memory that its process has held so far (0: unknown).

    A party reports each of the times in steps of 10 ms.
    """

    encrypt_s: float = 0.0
    decrypt_s: float = 0.0
    compute_s: float = 0.0
    serialise_s: float = 0.0
    peak_memory_bytes: int = 0

    @property
    def total_s(self) -> float:
        return self.encrypt_s + self.decrypt_s + self.compute_s + self.serialise_s
