"""Finding the common samples of the parties without showing an id."""

from fenchel_client.alignment.client import AlignmentClient
from fenchel_client.alignment.order import ArrangedShard, arrange
from fenchel_client.alignment.ring import Ring

__all__ = ["AlignmentClient", "ArrangedShard", "Ring", "arrange"]
