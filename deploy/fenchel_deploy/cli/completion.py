"""Values that a shell offers when a command line is completed; they are read only then.

`fenchel --install-completion` sets it up for bash, zsh, fish and PowerShell.
"""

from pathlib import Path

import typer

from fenchel_common.errors import FenchelError


def algorithm_names(incomplete: str) -> list[str]:
    from fenchel_common.algorithms import SETTINGS

    return [name for name in SETTINGS if name.startswith(incomplete)]


def privacy_levels(incomplete: str) -> list[str]:
    from fenchel_common.privacy import Privacy

    return [level.value for level in Privacy if level.value.startswith(incomplete)]


def ciphers(incomplete: str) -> list[str]:
    from fenchel_common.privacy import CIPHERS

    return [cipher for cipher in CIPHERS if cipher.startswith(incomplete)]


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The ids and names of the runs in the state folder, if --state stands on the line already."""
    from fenchel_server.store import SqliteStore

    if not (state := ctx.params.get("state")):
        return []
    try:
        with SqliteStore.inspect(Path(state)) as store:
            found = store.runs()
    except FenchelError:
        return []
    return [name for record in found for name in (record.run, record.name) if name.startswith(incomplete)]
