"""Kits of small federations for the attacks."""

from pathlib import Path
from typing import Final

from fenchel_deploy.federation_file import Federation, PartyEntry, ServerEntry
from fenchel_deploy.provision import provision

SERVER: Final = "server"
USUAL: Final = "bench"
RELEASING: Final = "releasing"
"""The name of the federation whose roster releases the final model to the server."""


def provisioned(folder: Path, count: int, federation: str) -> dict[str, Path]:
    """The kits of a federation of that many parties, by name, the server's among them."""
    described = Federation(
        name=federation,
        release_model_to_server=federation == RELEASING,
        server=ServerEntry(address="localhost:0", name=SERVER),
        party=[PartyEntry(name=f"party-{position}", key_holder=position == 0) for position in range(count)],
    )
    made = provision(described, folder / f"{federation}-{count}")
    return {kit.name: kit.directory for kit in made.kits}
