"""What a party's operator agreed to, and what a run asks of it beyond the defaults."""

from dataclasses import dataclass

from fenchel_client.concessions import Concession, explained
from fenchel_common.algorithms import SETTINGS
from fenchel_common.defaults import KEY_BITS
from fenchel_common.errors import Refusal
from fenchel_common.identity import Roster
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig

TRUST_KIT = "kit"
"""In the place of a fingerprint: approves whatever roster the kit has, for those who provision by themselves."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What the party's operator agreed to beyond the defaults.

    `approved_roster` is the fingerprint of the roster for which a key holder may make and wrap a key, or `TRUST_KIT`.
    `accepts` is what runs may ask for that the party takes part in.
    """

    approved_roster: str | None = None
    accepts: frozenset[Concession] = frozenset()

    def lacking(self, config: RunConfig) -> tuple[Concession, ...]:
        """What the run asks for and the operator did not accept; whoever accepts `plain` accepts `paper`."""
        accepted = self.accepts | {Concession.PAPER} if Concession.PLAIN in self.accepts else self.accepts
        return tuple(concession for concession in concessions_of(config) if concession not in accepted)

    def check(self, config: RunConfig) -> None:
        """Refuses a run that asks for more than the operator agreed to."""
        if lacking := self.lacking(config):
            options = " ".join(f"--accept {concession}" for concession in lacking)
            raise Refusal(
                f"the server asks for a run that nobody has agreed to here: {explained(lacking)}; "
                f"start the client with {options} if that is meant",
                public_reason=f"its operator does not accept: {', '.join(lacking)}",
            )

    def approves(self, roster: Roster) -> bool:
        """Whether a key holder may make keys for everyone on this roster."""
        return self.approved_roster in (TRUST_KIT, roster.fingerprint())


def concessions_of(config: RunConfig) -> tuple[Concession, ...]:
    """What a run asks of its parties' operators beyond the defaults."""
    asked = {
        # Of an algorithm that shows nothing more at the level `paper`, the server sees the same as at `sealed`.
        Concession.PAPER: config.privacy is Privacy.PAPER and bool(SETTINGS[config.algorithm].profile.sealed),
        Concession.PLAIN: config.privacy is Privacy.PLAIN,
        Concession.KEY_2048: config.privacy.encrypts_samples and config.key.bits < KEY_BITS,
        Concession.SUBGROUP: config.privacy.encrypts_samples and config.key.kind == "subgroup",
        Concession.HMAC: config.alignment == "hmac",
    }
    return tuple(concession for concession, needed in asked.items() if needed)
