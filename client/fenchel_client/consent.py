"""The agreement of a party's operator to runs that protect less than by default."""

from dataclasses import dataclass

from fenchel_client.askedrows import ScoringLimits
from fenchel_client.concessions import Concession, explained
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.defaults import KEY_BITS
from fenchel_common.errors import Refusal
from fenchel_common.identity import Roster
from fenchel_common.privacy import CIPHERS, Privacy
from fenchel_common.runconfig import RunConfig

TRUST_KIT = "kit"
"""Instead of a fingerprint: approves any roster of the kit, for operators who provision the kit themselves."""


@dataclass(frozen=True, slots=True)
class ScoringConsent:
    """The model of which a party gives its part of scores, and for how many rows."""

    model: str
    limits: ScoringLimits


@dataclass(frozen=True, slots=True)
class Consent:
    """The agreement of a party's operator.

    Attributes
    ----------
    approved_roster
        The fingerprint of the roster for which a key holder may make and wrap a key, or `TRUST_KIT`.
    accepts
        The concessions that runs may ask for.
    ciphers
        The ciphers that runs may have.
    scoring
        The scoring runs in which the party takes part, and no others; None for a party that trains. The table of a
        party that trains has values, which a scoring run would add up and show to the asking party.
    """

    approved_roster: str | None = None
    accepts: frozenset[Concession] = frozenset()
    ciphers: frozenset[str] = frozenset(CIPHERS)
    scoring: ScoringConsent | None = None

    def lacking(self, config: RunConfig) -> tuple[Concession, ...]:
        """The concessions that the run asks for and the operator did not accept; `plain` accepts `paper` too."""
        accepted = self.accepts | {Concession.PAPER} if Concession.PLAIN in self.accepts else self.accepts
        return tuple(concession for concession in concessions_of(config) if concession not in accepted)

    def check(self, config: RunConfig) -> None:
        """Refuses a run that asks for more than the operator agreed to, or has a cipher that the operator rejects."""
        self._check_kind(config.algorithm_settings())
        if config.privacy.encrypts_samples and config.cipher not in self.ciphers:
            raise Refusal(
                f"the run hides vectors by {config.cipher}, and the operator of this party accepts only "
                f"{', '.join(sorted(self.ciphers))}; if you agree to it, start the client with "
                f"--accept-cipher {config.cipher}",
                public_reason=f"its operator does not accept the cipher {config.cipher}",
            )
        if lacking := self.lacking(config):
            options = " ".join(f"--accept {concession}" for concession in lacking)
            raise Refusal(
                f"the server asks for a run to which the operator of this party has not agreed: {explained(lacking)}; "
                f"if you agree to that, start the client with {options}",
                public_reason=f"its operator does not accept: {', '.join(lacking)}",
            )

    def _check_kind(self, settings: AlgorithmSettings) -> None:
        model = settings.model if isinstance(settings, ScoringSettings) else None
        if model == (None if self.scoring is None else self.scoring.model):
            return
        offered = "trains" if self.scoring is None else f"gives its part of scores by {self.scoring.model} alone"
        asked = "trains a model" if model is None else f"asks for scores by the model of {model}"
        raise Refusal(
            f"the run {asked}, and this process {offered}; scores need `fenchel score` at every party",
            public_reason=f"its process {offered}",
        )

    def approves(self, roster: Roster) -> bool:
        """Whether a key holder may make keys for everyone on this roster."""
        return self.approved_roster in (TRUST_KIT, roster.fingerprint())


def concessions_of(config: RunConfig) -> tuple[Concession, ...]:
    """The concessions that a run asks for."""
    asked = {
        # Some algorithms show the server the same values at the levels `paper` and `sealed`.
        Concession.PAPER: config.privacy is Privacy.PAPER and bool(SETTINGS[config.algorithm].profile.sealed),
        Concession.PLAIN: config.privacy is Privacy.PLAIN,
        Concession.KEY_2048: config.has_paillier_key and config.key.bits < KEY_BITS,
        Concession.SUBGROUP: config.has_paillier_key and config.key.kind == "subgroup",
        Concession.HMAC: config.alignment == "hmac",
        Concession.SEED: config.seed is not None,
        Concession.EXTREMES: config.range_scale is not None,
    }
    return tuple(concession for concession, needed in asked.items() if needed)
