"""Every error that Fenchel raises on purpose.

    FenchelError
    ├── TransientError                  a retry may cure it
    │   ├── AlignmentIncomplete         a party fell out of the alignment, which must start afresh
    │   ├── StateInUse                  another server holds the state directory
    │   ├── ServerUnavailable           the server cannot be reached, or broke off
    │   ├── PeerSilent                  nothing was heard from the other side for too long
    │   └── BodyDamaged                 a streamed body is not the one that was announced
    └── PermanentError                  a retry cannot
        ├── InvalidInput                a value that a person or a peer gave is not acceptable
        │   └── InvalidConfig           a run's configuration has an unknown key or a value out of range
        ├── ResultRejected              a client's result is not one that its task can have
        ├── StoreError                  the durable state refused
        │   ├── NoState                 the directory holds no state of a server
        │   ├── SchemaTooNew            written by a newer Fenchel
        │   ├── StateDamaged            a record or snapshot is not what was written
        │   ├── UnknownRun              no run of that name
        │   └── RecordConflict          the record contradicts what is already committed
        ├── IdentityError               who someone is could not be established
        │   ├── KitIncomplete           a file of a kit is missing or damaged
        │   ├── MalformedCertificate    not a certificate that this project issues
        │   ├── CertificateNotValidNow  expired, or not valid yet by this machine's clock
        │   ├── WrongAuthority          signed by another authority than this federation's
        │   ├── WrongRole               a party's certificate where a server's is due, or the reverse
        │   ├── KeyMismatch             a private key that is not the one of its certificate
        │   ├── RosterTampered          the roster is not what the authority signed
        │   ├── RosterExpired           the roster's time is over
        │   ├── NotOnRoster             the roster does not name this party
        │   └── CertificateReplaced     the roster names another key for its holder, or none
        ├── LabelsDiffer                parties have different labels for the same samples
        ├── FederationFailed            the processes of a federation ended before its run did
        ├── Refusal                     a party cannot take part, for a reason in its own data
        │   └── DataUnfit               its data do not fit the run: its operator must change them or stay away
        ├── ProtocolError               the two sides of a connection cannot go on
        │   ├── ProtocolVersionMismatch     they speak different versions
        │   ├── ProtocolViolation           a message is malformed or out of order
        │   ├── BodyTooLarge                a task or result is over the size limit
        │   └── SessionSuperseded           a newer process of the same party took over
        ├── AlignmentError              the parties' samples and features do not make one table
        └── CryptoError
            ├── KeyTooSmall             fewer bits than are safe
            ├── KeyFileError            a key file is missing a part, damaged, or readable by others
            ├── WrongKey                made under another key than the one at hand
            ├── ValueNotFinite          NaN or an infinity
            ├── ValueOutOfRange         beyond the public bound of its vector format
            ├── TooManyTerms            more additions than the slots can hold
            ├── IncompatibleVectors     vectors of unequal format, length or kind
            ├── MalformedVector         not the canonical bytes of a vector
            ├── InvalidCiphertext       not an element of the ciphertext group
            ├── ChecksumMismatch        decrypted, but not to what an honest sum can be
            └── WrappedKeyError         a wrapped private key was refused
                ├── MalformedWrappedKey     not the canonical bytes of a wrapped key
                ├── WrappedKeyAltered       its signature does not hold
                ├── WrappedKeyReplayed      made for another run
                ├── WrongRoster             made for another roster
                ├── WrongTerms              made for another configuration, or not a key of this one
                ├── WrongSigner             not signed by the roster's key holder
                └── NotForUs                wrapped for another party, or to another key of this one

No message holds key material, a plaintext value or a sample id; a Refusal alone may name sample ids, to the party
that holds them.
"""

from collections.abc import Iterable


class FenchelError(Exception):
    """Base of all errors raised on purpose."""


class TransientError(FenchelError):
    """Something that may succeed when it is tried again."""


class StateInUse(TransientError):
    """Another server process holds the state directory."""


class AlignmentIncomplete(TransientError):
    """A party fell out of the alignment, which must start afresh with all of them."""


class ServerUnavailable(TransientError):
    """The server cannot be reached, or broke the connection off."""


class PeerSilent(TransientError):
    """Nothing, not even a heartbeat, was heard from the other side for too long."""


class BodyDamaged(TransientError):
    """The bytes of a streamed body are not those that were announced."""


class PermanentError(FenchelError):
    """Something that will fail again until a person or a program changes its cause."""


class InvalidInput(PermanentError):
    """A value that a person or a peer gave is not acceptable; the message names it and the cure."""


class InvalidConfig(InvalidInput):
    """A run's configuration has an unknown key or a value out of range."""


class ResultRejected(PermanentError):
    """A client's result is not one that its task can have; the round is tried again without that client."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"result of {client} rejected: {reason}")
        self.client = client
        self.reason = reason


class StoreError(PermanentError):
    """The durable state refused; what was committed before is still there."""


class NoState(StoreError):
    """The directory holds no state of a server."""


class SchemaTooNew(StoreError):
    """The state was written by a newer Fenchel."""


class StateDamaged(StoreError):
    """A record or snapshot is not what was written."""


class UnknownRun(StoreError):
    """The store has no such run."""


class RecordConflict(StoreError):
    """The record contradicts what is already committed."""


class Refusal(PermanentError):
    """A party cannot take part, for a reason in its own data.

    The message is for that party's operator and may name what is wrong in full; only `public_reason`,
    which holds no sample id and no value, leaves the party.
    """

    def __init__(self, message: str, *, public_reason: str) -> None:
        super().__init__(message)
        self.public_reason = public_reason


class DataUnfit(Refusal):
    """The party's data do not fit the run that it is asked to take part in."""


class LabelsDiffer(PermanentError):
    """`parties` found, before the first round, that others have different labels for the samples they share."""

    def __init__(self, parties: Iterable[str]) -> None:
        super().__init__(
            f"labels of shared samples differ between parties; the logs of {', '.join(parties)} say how many do; "
            "the parties must correct them and start the run anew"
        )


class FederationFailed(PermanentError):
    """The processes of a federation ended before its run did; the message has the end of the server's log."""


class ProtocolError(PermanentError):
    """The two sides of a connection cannot go on as they are."""


class ProtocolVersionMismatch(ProtocolError):
    """The two sides speak different versions of the protocol."""


class ProtocolViolation(ProtocolError):
    """A message is malformed or out of order."""


class BodyTooLarge(ProtocolError):
    """A task or result is over the size limit of the side that receives it."""


class SessionSuperseded(ProtocolError):
    """A newer process with the same certificate took this one's place."""


class IdentityError(PermanentError):
    """Who someone is could not be established; the message names the file or field and the cure."""


class KitIncomplete(IdentityError):
    """A file of a kit is missing, unreadable or damaged."""


class MalformedCertificate(IdentityError):
    """The bytes are not a certificate that this project issues."""


class CertificateNotValidNow(IdentityError):
    """The certificate has expired, or is not valid yet by this machine's clock."""


class WrongAuthority(IdentityError):
    """The certificate was signed by another authority than this federation's."""


class WrongRole(IdentityError):
    """The certificate is of another role than the one that is due."""


class KeyMismatch(IdentityError):
    """The private key is not the one of the certificate."""


class RosterTampered(IdentityError):
    """The roster is not what the federation's authority signed."""


class RosterExpired(IdentityError):
    """The roster's time is over; the operator makes a new one."""


class NotOnRoster(IdentityError):
    """The roster does not name this party."""


class CertificateReplaced(IdentityError):
    """The roster names another key for the certificate's holder, or none: it was replaced or revoked."""


class AlignmentError(PermanentError):
    """The parties' samples and features do not make one table; the message names parties, features and counts."""


class CryptoError(PermanentError):
    """Encryption, decryption or arithmetic on ciphertext refused to go on."""


class KeyTooSmall(CryptoError):
    """The key has fewer bits than are safe."""


class KeyFileError(CryptoError):
    """A key file is missing a part, damaged, or readable by others."""


class WrongKey(CryptoError):
    """The ciphertext was made under another key than the one at hand."""


class ValueNotFinite(CryptoError):
    """A value to encrypt is NaN or an infinity."""


class ValueOutOfRange(CryptoError):
    """A value to encrypt lies beyond the public bound of its vector format."""


class TooManyTerms(CryptoError):
    """A sum has more terms than its slots can hold."""


class IncompatibleVectors(CryptoError):
    """Two vectors of unequal format, length or kind cannot be combined."""


class MalformedVector(CryptoError):
    """The bytes are not the canonical form of a vector."""


class InvalidCiphertext(CryptoError):
    """A number is not an element of the ciphertext group."""


class ChecksumMismatch(CryptoError):
    """The plaintext is not what a sum of honest vectors can be: an overflow or a foreign ciphertext."""


class WrappedKeyError(CryptoError):
    """A wrapped private key was refused."""


class MalformedWrappedKey(WrappedKeyError):
    """The bytes are not the canonical form of a wrapped key."""


class WrappedKeyAltered(WrappedKeyError):
    """The signature of a wrapped key does not hold."""


class WrappedKeyReplayed(WrappedKeyError):
    """The wrapped key was made for another run."""


class WrongRoster(WrappedKeyError):
    """The wrapped key was made for another roster."""


class WrongTerms(WrappedKeyError):
    """The wrapped key was made for another configuration of the run, or is not of the size and kind that it names."""


class WrongSigner(WrappedKeyError):
    """The wrapped key is not signed by the roster's key holder."""


class NotForUs(WrappedKeyError):
    """The wrapped key was made for another party, or to another key of this one."""
