"""The final model as the parties release it to the server, put together from their parts and checked.

Each party decides by its own signed roster whether it releases its part. Exact weights come from every holder of a
feature, and all its holders must give the same weights. Noisy weights come from the first holder alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import LastCertificate
from fenchel_common.release import ReleaseNoise
from fenchel_common.wire.setup import model_release_from_bytes

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReleaseSummary:
    """The record of a release, without any weights; `reason` says why the model is not whole."""

    whole: bool
    reason: str
    noise: ReleaseNoise | None


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """The whole model, in the order of `features`; or no weights, and the reason why the model is not whole.

    In a run of several `classes`, the weights have a column for each of them.

    `certificate` proves how good the exact model is. It is empty beside a noisy model: it would tell more about the
    exact model than the noise allows.
    """

    features: tuple[str, ...]
    weights: NDArray[np.float64] | None = field(default=None, repr=False)
    reason: str = ""
    certificate: LastCertificate = field(default_factory=LastCertificate)
    noise: ReleaseNoise | None = None
    classes: tuple[str, ...] = ()

    def summary(self) -> ReleaseSummary:
        return ReleaseSummary(whole=self.weights is not None, reason=self.reason, noise=self.noise)


def put_together(
    results: Mapping[ClientId, bytes],
    *,
    layout: FederationLayout,
    certificate: LastCertificate,
    noise: ReleaseNoise | None,
    classes: tuple[str, ...] = (),
) -> Release:
    """The model that the parties' answers to the last phase make; a part that is missing or wrong leaves no model."""
    try:
        due = _due_exact(layout) if noise is None else _due_noisy(layout)
        weights = _whole(results, layout, due, classes=len(classes))
    except InvalidInput as error:
        return Release(layout.features, reason=_why(str(error), certificate, noise), noise=noise)
    shown = LastCertificate() if noise else certificate
    return Release(layout.features, weights, certificate=shown, noise=noise, classes=classes)


def _why(reason: str, certificate: LastCertificate, noise: ReleaseNoise | None) -> str:
    if noise is not None and (certificate.gap is None or certificate.gap > noise.gap):
        return f"the gap is not proven to be at most {noise.gap:g}, so the noise would not be enough"
    return reason


def _due_exact(layout: FederationLayout) -> Mapping[ClientId, Indices]:
    return layout.client_features


def _due_noisy(layout: FederationLayout) -> Mapping[ClientId, Indices]:
    """The features for which each client gives the weights, in the order of these weights."""
    nothing = np.zeros(0, dtype=np.int64)
    answering = layout.feature_index.first_holders(layout.clients)
    return {
        client: np.concatenate(
            [nothing, *(layout.feature_blocks[block].features for block in answering.get(client, ()))]
        )
        for client in layout.clients
    }


def _whole(
    results: Mapping[ClientId, bytes], layout: FederationLayout, due: Mapping[ClientId, Indices], *, classes: int
) -> NDArray[np.float64]:
    weights = np.full((len(layout.features), classes) if classes else len(layout.features), np.nan)
    for client in layout.clients:
        if client not in results:
            continue
        try:
            given = model_release_from_bytes(results[client], features=len(due[client]), classes=classes)
        except InvalidInput as error:
            raise InvalidInput(f"{client}: {error}") from None
        positions = due[client][: len(given)]
        known = weights[positions]
        if not (np.isnan(known) | (known == given)).all():
            raise InvalidInput(f"{client}: its weights differ from those that another party gave for the same features")
        weights[positions] = given
    if missing := np.count_nonzero(np.isnan(weights).reshape(len(weights), -1).any(axis=1)):
        raise InvalidInput(f"no party gave the weights of {missing} features")
    return weights
