"""Consequences of a run's configuration: the key of its vectors, and how long a party's results may be."""

from collections.abc import Mapping

from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.limits import Extent, round_limits


def run_key(config: RunConfig, public_key: bytes) -> RunKey:
    """How the run's vectors by sample are hidden."""
    if config.has_masks:
        return RunKey.of_masks(config.key.bits)
    if not config.has_paillier_key:
        return RunKey.in_clear(config.key.bits)
    return RunKey.of(PublicKey.from_bytes(public_key))


def result_limits(phase: str, config: RunConfig, extents: Mapping[ClientId, Extent]) -> dict[ClientId, int]:
    """For each client the most bytes that its result may have in a phase after the layout."""
    settings = config.algorithm_settings()
    return {client: round_limits(phase, extent, settings).result for client, extent in extents.items()}
