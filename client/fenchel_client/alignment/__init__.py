"""Finding the common samples of the parties without showing an id."""

from fenchel_client.alignment.blinders import Blinding, BlindingSecrets, ways_of
from fenchel_client.alignment.client import AlignmentClient
from fenchel_client.alignment.names import columns_by_pseudonym, pseudonyms
from fenchel_client.alignment.order import OwnData, arrange
from fenchel_client.alignment.ring import Ring
from fenchel_client.alignment.vocabularies import agreed_vocabulary, vocabulary_answer, vocabulary_hints
from fenchel_client.runtable import run_table

__all__ = [
    "AlignmentClient",
    "Blinding",
    "BlindingSecrets",
    "OwnData",
    "Ring",
    "agreed_vocabulary",
    "arrange",
    "columns_by_pseudonym",
    "pseudonyms",
    "run_table",
    "vocabulary_answer",
    "vocabulary_hints",
    "ways_of",
]
