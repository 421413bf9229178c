"""Federations for tests: real authorities, certificates and kits, made in milliseconds."""

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from fenchel_deploy.authority import Authority
from fenchel_deploy.federation_file import Federation, PartyEntry, ServerEntry
from fenchel_deploy.provision import provision


def federation_of(
    parties: Sequence[str] = ("north", "south"),
    *,
    address: str = "localhost:9092",
    federation: str = "test",
    validity_days: int = 30,
    release_model_to_server: bool = False,
) -> Federation:
    """A federation whose first party is the key holder; all parties have labels."""
    return Federation(
        name=federation,
        server=ServerEntry(address=address),
        party=[PartyEntry(name=name, key_holder=index == 0) for index, name in enumerate(parties)],
        validity_days=validity_days,
        release_model_to_server=release_model_to_server,
    )


def make_federation(
    directory: Path,
    parties: Sequence[str] = ("north", "south"),
    *,
    address: str = "localhost:9092",
    federation: str = "test",
    validity_days: int = 30,
    now: datetime | None = None,
) -> dict[str, Path]:
    """Provisions a federation; maps each party's name, and "server", to its kit.

    `now` in the past makes certificates that have expired.
    """
    described = federation_of(parties, address=address, federation=federation, validity_days=validity_days)
    return {kit.name: kit.directory for kit in provision(described, directory, now=now).kits}


def hand_over(kit: Path, to: Path, *, files: Sequence[str] = ()) -> Path:
    """Copies a kit, or some files of it, to another folder, and overwrites the files there."""
    to.mkdir(parents=True, exist_ok=True)
    for path in sorted(kit.iterdir()):
        if not files or path.name in files:
            shutil.copy(path, to / path.name)
    return to


def authority_of(directory: Path, *, federation: str = "test") -> Authority:
    """An authority alone, for tests that sign or issue by themselves."""
    return Authority.open_or_make(directory, federation=federation, skew=timedelta(minutes=10))
