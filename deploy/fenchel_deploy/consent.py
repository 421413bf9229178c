"""The consent of a person who starts a whole federation and therefore is the operator of every party."""

from fenchel_client.consent import concessions_of
from fenchel_common.runconfig import RunConfig


def consenting_options(config: RunConfig) -> list[str]:
    """The options of `fenchel client` that approve the kit's roster and accept this run, and no weaker one."""
    accepted = [word for concession in concessions_of(config) for word in ("--accept", str(concession))]
    return ["--approve-roster", "kit", *accepted]
