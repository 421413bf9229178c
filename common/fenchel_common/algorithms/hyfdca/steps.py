"""c_k and γ_t, the sizes of a run's local steps."""

from dataclasses import dataclass

from fenchel_common.ids import RoundId


@dataclass(frozen=True, slots=True)
class StepRule:
    """The step sizes of a run.

    Attributes
    ----------
    proportional
        c_k = N_k/N if set, else 1.
    diminishing
        γ_t = 1/t if set, else 1.
    gamma
        Overrides γ_t.
    """

    proportional: bool
    diminishing: bool
    gamma: float | None

    def step_scale(self, own_samples: int, sample_count: int) -> float:
        """c_k of a client with `own_samples` labelled samples, of `sample_count` in all."""
        return own_samples / sample_count if self.proportional else 1.0

    def gamma_at(self, round_id: RoundId) -> float:
        """γ_t of a round."""
        if self.gamma is not None:
            return self.gamma
        return 1.0 / round_id if self.diminishing else 1.0
