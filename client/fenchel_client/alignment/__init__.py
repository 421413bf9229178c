"""Finding the common samples of the parties without showing an id."""

from fenchel_client.alignment.client import AlignmentClient
from fenchel_client.alignment.order import arrange

__all__ = ["AlignmentClient", "arrange"]
