"""Every error that Fenchel raises on purpose.

    FenchelError
    ├── TransientError                  a retry may cure it
    │   ├── AlignmentIncomplete         a party fell out of the alignment, which must start afresh
    │   ├── StateInUse                  another server uses the state directory
    │   ├── ServerUnavailable           the server cannot be reached, or broke off
    │   ├── PeerSilent                  nothing was heard from the other side for too long
    │   └── BodyDamaged                 a streamed body is not the one that was announced
    └── PermanentError                  a retry cannot
        ├── InvalidInput                a value that a person or a peer gave is not acceptable
        │   └── InvalidConfig           a run's configuration has an unknown key or a value out of range
        ├── ResultRejected              a client's result is missing, or not one that its task can have
        ├── StoreError                  the durable state refused
        │   ├── NoState                 the directory has no state of a server
        │   ├── SchemaTooNew            written by a newer Fenchel
        │   ├── StateDamaged            a record or snapshot is not what was written
        │   ├── UnknownRun              no run of that name
        │   └── RecordConflict          the record contradicts what is already committed
        ├── IdentityError               an identity could not be established
        │   ├── KitIncomplete           a file of a kit is missing or damaged
        │   ├── MalformedCertificate    not a certificate that this project issues
        │   ├── CertificateNotValidNow  expired, or not valid yet by this machine's clock
        │   ├── WrongAuthority          signed by another authority than this federation's
        │   ├── WrongRole               a party's certificate where a server's is due, or the reverse
        │   ├── KeyMismatch             a private key that is not the one of its certificate
        │   ├── RosterTampered          the roster is not what the authority signed
        │   ├── RosterExpired           the roster has expired
        │   ├── NotOnRoster             the roster does not name this party
        │   ├── CertificateReplaced     the roster names another key for its owner, or none
        │   └── IntroductionNotSigned   an introduction is not one for this run, roster and configuration
        ├── LabelsDiffer                parties have different labels for the same samples
        ├── FederationFailed            the processes of a federation ended before its run did
        ├── Refusal                     a party cannot take part, for a reason in its own data
        │   ├── DataUnfit               its data do not fit the run: its operator must change them or stay away
        │   └── RunLocked               it takes no further part in the run, after values that no honest run has
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
            ├── TagMismatch             not the sum of the contributions that a party expects
            └── WrappedKeyError         a wrapped private key was refused
                ├── MalformedWrappedKey     not the canonical bytes of a wrapped key
                ├── WrappedKeyAltered       its signature is not valid
                ├── WrappedKeyReplayed      made for another run, or for another set-up of it
                ├── WrongRoster             made for another roster
                ├── WrongTerms              made for another configuration, or not a key of this one
                ├── WrongSigner             not signed by the roster's key holder
                └── NotForUs                wrapped for another party, or to another key of this one

No message contains key material, a plaintext value or a sample id, with one exception: a Refusal may name sample ids,
to the party that holds them.
"""

from collections.abc import Iterable, Mapping

from fenchel_common.dismissal import UnfitData


class FenchelError(Exception):
    """The base of all errors that Fenchel raises on purpose."""


class TransientError(FenchelError):
    """An error that a retry may cure."""


class StateInUse(TransientError):
    """Another server process uses the state directory."""


class AlignmentIncomplete(TransientError):
    """A party fell out of the alignment, which must start afresh with all of them."""


class ServerUnavailable(TransientError):
    """The server cannot be reached, or broke the connection off."""


class PeerSilent(TransientError):
    """Nothing, not even a heartbeat, was heard from the other side for too long."""


class BodyDamaged(TransientError):
    """The bytes of a streamed body are not those that were announced."""


class PermanentError(FenchelError):
    """An error that comes again until a person or a program removes its cause."""


class InvalidInput(PermanentError):
    """A value that a person or a peer gave is not acceptable; the message names it and the cure."""


class InvalidConfig(InvalidInput):
    """A run's configuration has an unknown key or a value out of range."""


class ResultRejected(PermanentError):
    """A client's result is not one that its task can have, or is missing where all are due; the round begins anew."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"result of {client} rejected: {reason}")
        self.client = client
        self.reason = reason


class StoreError(PermanentError):
    """The durable state refused an operation; all that was committed before is unchanged."""


class NoState(StoreError):
    """The directory has no state of a server."""


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

    The message is for that party's operator and may name everything that is wrong. Only `public_reason` leaves the
    party; it must contain no sample id and no value.
    """

    def __init__(self, message: str, *, public_reason: str) -> None:
        super().__init__(message)
        self.public_reason = public_reason


class DataUnfit(Refusal):
    """The party's data do not fit the run that it is asked to take part in."""


class RunLocked(Refusal):
    """The party takes no further part in a run, because several of its tasks had values that no honest run has."""


class LabelsDiffer(PermanentError):
    """Parties have different labels for the same samples; `parties` found that before the first round."""

    def __init__(self, parties: Iterable[str]) -> None:
        super().__init__(
            f"labels of shared samples differ between parties; the logs of {', '.join(parties)} say how many do; "
            "the parties must correct them and start the run anew"
        )


class FederationFailed(PermanentError):
    """The processes of a federation ended before its run did; the message has the end of the server's log."""


class ProtocolError(PermanentError):
    """The two sides of a connection cannot continue."""


class ProtocolVersionMismatch(ProtocolError):
    """The two sides speak different versions of the protocol."""


class ProtocolViolation(ProtocolError):
    """A message is malformed or out of order."""


class BodyTooLarge(ProtocolError):
    """A task or result is over the size limit of the side that receives it."""


class SessionSuperseded(ProtocolError):
    """A newer process with the same certificate replaced this one."""


class IdentityError(PermanentError):
    """An identity could not be established; the message names the file or field and the cure."""


class KitIncomplete(IdentityError):
    """A file of a kit is missing, unreadable or damaged."""


class MalformedCertificate(IdentityError):
    """The bytes are not a certificate that this project issues."""


class CertificateNotValidNow(IdentityError):
    """The certificate has expired, or is not valid yet by this machine's clock."""


class WrongAuthority(IdentityError):
    """The certificate was signed by another authority than this federation's."""


class WrongRole(IdentityError):
    """The certificate has another role than the one required."""


class KeyMismatch(IdentityError):
    """The private key is not the one of the certificate."""


class RosterTampered(IdentityError):
    """The roster is not what the federation's authority signed."""


class RosterExpired(IdentityError):
    """The roster has expired; the operator makes a new one."""


class NotOnRoster(IdentityError):
    """The roster does not name this party."""


class CertificateReplaced(IdentityError):
    """The roster names another key for the certificate's owner, or none: the key was replaced or revoked."""


class IntroductionNotSigned(IdentityError):
    """An introduction does not have its party's signature for this run, this roster and this configuration."""


class AlignmentError(PermanentError):
    """The parties' samples and features do not make one table; the message names parties, features and counts.

    `unfit` has what the parties are to be told that can mend it.
    """

    def __init__(self, message: str, *, unfit: Mapping[str, UnfitData]) -> None:
        super().__init__(message)
        self.unfit = unfit


class CryptoError(PermanentError):
    """Encryption, decryption or arithmetic on ciphertext refused its input."""


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


class TagMismatch(CryptoError):
    """A vector is not the sum of the contributions that this party expects."""


class WrappedKeyError(CryptoError):
    """A wrapped private key was refused."""


class MalformedWrappedKey(WrappedKeyError):
    """The bytes are not the canonical form of a wrapped key."""


class WrappedKeyAltered(WrappedKeyError):
    """The signature of a wrapped key is not valid."""


class WrappedKeyReplayed(WrappedKeyError):
    """The wrapped key was made for another run, or for another set-up of this run."""


class WrongRoster(WrappedKeyError):
    """The wrapped key was made for another roster."""


class WrongTerms(WrappedKeyError):
    """The wrapped key was made for another configuration of the run, or is not of the size and kind that it names."""


class WrongSigner(WrappedKeyError):
    """The wrapped key is not signed by the roster's key holder."""


class NotForUs(WrappedKeyError):
    """The wrapped key was made for another party, or to another key of this one."""
