"""A party's model after a run: what it is made of, and the folder in which it lies."""

from fenchel_common.model.folder import find_model, model_from_files, read_model, write_model
from fenchel_common.model.record import Certificate, Feature, Model, ModelRecord, Provenance, Standardised

__all__ = [
    "Certificate",
    "Feature",
    "Model",
    "ModelRecord",
    "Provenance",
    "Standardised",
    "find_model",
    "model_from_files",
    "read_model",
    "write_model",
]
