"""Finding the common samples of the parties without showing an id."""

from fenchel_client.alignment.client import AlignmentClient
from fenchel_client.alignment.names import columns_by_pseudonym, pseudonyms
from fenchel_client.alignment.order import arrange
from fenchel_client.alignment.ring import Ring

__all__ = ["AlignmentClient", "Ring", "arrange", "columns_by_pseudonym", "pseudonyms"]
