"""The folder of a whole federation on one machine, and the model that its parties end with.

DIRECTORY/kits/NAME/       one kit each, for the server and every party
DIRECTORY/shards/NAME.npz
DIRECTORY/run.toml
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed
from fenchel_common.intercept import INTERCEPT
from fenchel_common.model import Model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.federation_file import Federation, PartyEntry, ServerEntry
from fenchel_deploy.provision import provision

SERVER = "server"
PORT = 9092


def lay_out(
    directory: Path,
    shards: Mapping[str, Shard],
    config: RunConfig,
    *,
    name: str,
    host: str,
    saved: Iterable[str] | None = None,
    other_hosts: Sequence[str] = (),
    release_model_to_server: bool = False,
) -> None:
    """Writes the kits, the shards and the run's file; the first party is the key holder.

    `host` is where clients dial the server; the server's certificate is valid for `other_hosts` too. `saved` are the
    parties whose shards are written, all unless given.
    """
    parties = [
        PartyEntry(name=party, key_holder=index == 0, labels=shard.y is not None)
        for index, (party, shard) in enumerate(shards.items())
    ]
    server = ServerEntry(address=f"{host}:{PORT}", name=SERVER, alternative_names=list(other_hosts))
    federation = Federation(name=name, server=server, party=parties, release_model_to_server=release_model_to_server)
    provision(federation, directory / "kits")
    (directory / "shards").mkdir(exist_ok=True)
    for party in shards if saved is None else saved:
        shards[party].save(shard_file(directory, party))
    (directory / "run.toml").write_text(run_toml(config))


def run_toml(config: RunConfig) -> str:
    """The text of a run's file: the settings that are not the defaults, so that older installations can read it too."""
    return tomli_w.dumps(config.model_dump(exclude_defaults=True, exclude_none=True))


def whole_model(parts: Iterable[Model], features: Sequence[str]) -> NDArray[np.float64]:
    """The weights of `features`, from the parts of the parties; the intercept is under its name."""
    weights: dict[str, Any] = {}
    for part in parts:
        weights |= dict(zip(part.names, part.weights.tolist(), strict=True))
        weights |= {} if part.intercept is None else {INTERCEPT: part.intercept.tolist()}
    if missing := [feature for feature in features if feature not in weights]:
        raise FederationFailed(f"no party got the weights of {', '.join(missing)}")
    return np.array([weights[feature] for feature in features])


def kit_folder(directory: Path, name: str) -> Path:
    return directory / "kits" / name


def shard_file(directory: Path, name: str) -> Path:
    return directory / "shards" / f"{name}.npz"
