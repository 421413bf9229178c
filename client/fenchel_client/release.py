"""A party's release of the final model to the server, if the party's own signed roster allows it.

With noise, each weight is released once, by the first holder of its feature, who alone knows the noise on it. The
parties keep the exact model.
"""

import math
import secrets
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.base import AlgorithmClient, KnowsRows
from fenchel_client.participant import Participant
from fenchel_common.algorithms.settings import StopRules
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import Refusal
from fenchel_common.release import NORM_ERROR, ReleaseNoise, longest

Array = NDArray[np.float64]

GRID_BITS: Final = 20
"""Noisy weights are multiples of 2^-20·σ or less: lower bits could show the noise and so the weight."""


def check_rows(algorithm: AlgorithmClient, noise: ReleaseNoise) -> None:
    """Raises `Refusal` if a row of this party is known to be longer than the noise allows for."""
    norms = algorithm.squared_norms if isinstance(algorithm, KnowsRows) else None
    if norms is not None:
        check_lengths(norms, noise.row_bound)


def check_lengths(norms: Array, row_bound: float) -> None:
    """Raises `Refusal` if a row of these squared lengths is longer than `release.row_bound`."""
    if too_long := np.count_nonzero(norms + NORM_ERROR > longest(row_bound) ** 2):
        raise Refusal(
            f"{too_long} rows are longer than release.row_bound = {row_bound:g}, for which the noise on the "
            "released model would not be enough; scale the features, or agree on a larger bound",
            public_reason="it has rows longer than release.row_bound",
        )


def reason_not_to_release(participant: Participant, stop: StopRules) -> str | None:
    """Why the server does not get the model: by what this party saw itself, the run has not met its stopping rule.

    A model of an early round, or of few parties, could show single rows: after one step on one sample it is a row.
    """
    if not participant.saw_the_model():
        return "this party did not open figures of all parties about this very model"
    gap = participant.certified_gap()
    # The comparison is written so that NaN fails it.
    if stop.gap is not None and gap is not None and gap <= stop.gap:
        return None
    done = participant.transcript.book.rounds_done
    if done >= stop.rounds:
        return None
    goal = "" if stop.gap is None else f"the duality gap is not proven to be at most {stop.gap:g}, and "
    return f"{goal}everybody took part in {done} of {stop.rounds} rounds"


def released_weights(weights: Array, *, gap: float | None, layout: ClientLayout, noise: ReleaseNoise | None) -> Array:
    """The weights that the server gets, in the server's order of features.

    Without noise these are all of this party's weights, with noise those of which it is the first holder. With noise,
    the server gets no weights if the model is farther from the optimum than the noise allows for, by its `gap`.
    """
    if noise is None:
        return weights[layout.columns]
    blocks = layout.first_holder_of(layout.clients)
    if gap is None or not gap <= noise.gap or not blocks:
        return np.zeros(0)
    positions = np.concatenate([layout.feature_blocks[block] for block in blocks])
    return with_noise(weights[positions], sigma=noise.sigma)


def with_noise(weights: Array, *, sigma: float) -> Array:
    """The weights with independent Gaussian noise from the operating system's randomness."""
    source = secrets.SystemRandom()
    noise = np.array([source.gauss(0.0, sigma) for _ in weights])
    unit = 2.0 ** (math.floor(math.log2(sigma)) - GRID_BITS)
    return np.asarray(np.round((weights + noise) / unit) * unit, dtype=np.float64)
