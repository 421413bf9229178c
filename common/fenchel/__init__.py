"""Fenchel from Python: estimators over a federation on this machine, and real federations. docs/python.md explains both.

The estimators need scikit-learn (`pip install 'fenchel[full]'`). Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fenchel_deploy.pythonapi.estimators import FederatedClassifier, FederatedRegressor
    from fenchel_deploy.pythonapi.federation import Federation, Result, Round, Run
    from fenchel_deploy.pythonapi.warm import close_all

__all__ = ["FederatedClassifier", "FederatedRegressor", "Federation", "Result", "Round", "Run", "close_all"]

_PLACES = {
    "FederatedClassifier": "fenchel_deploy.pythonapi.estimators",
    "FederatedRegressor": "fenchel_deploy.pythonapi.estimators",
    **dict.fromkeys(("Federation", "Result", "Round", "Run"), "fenchel_deploy.pythonapi.federation"),
    "close_all": "fenchel_deploy.pythonapi.warm",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'fenchel' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
