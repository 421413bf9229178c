"""AFL at a party: local steps on its own loss, from the averaged model."""

from fenchel_client.algorithms.averaging.descent import DescentClient
from fenchel_common.algorithms.averaging.afl import AflSettings


class AflClient(DescentClient[AflSettings]):
    """The client half of AFL."""
