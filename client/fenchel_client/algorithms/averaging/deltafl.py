"""Δ-FL at a party: local steps on its own loss, from the averaged model."""

from fenchel_client.algorithms.averaging.descent import DescentClient
from fenchel_common.algorithms.averaging.deltafl import DeltaflSettings


class DeltaflClient(DescentClient[DeltaflSettings]):
    """The client half of Δ-FL."""
