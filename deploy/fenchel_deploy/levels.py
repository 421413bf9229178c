"""The same small federation at several privacy levels, to put their ledgers side by side."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fenchel_common.errors import InvalidInput
from fenchel_deploy.audit import Audit, audit_of_server
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.training import Training, TrainingOptions


def compare(
    levels: Sequence[str], options: TrainingOptions, *, directory: Path, tell: Callable[[str], None]
) -> dict[str, Audit]:
    """Runs the same small federation, as real processes, at each privacy level."""
    known = options.profile.privacy
    if wrong := [level for level in levels if level not in known]:
        raise InvalidInput(f"--compare: {options.algorithm} knows {', '.join(known)}; {wrong[0]!r} is none of these")
    audits: dict[str, Audit] = {}
    for level in known:
        if level in levels:
            tell(level)
            training = Training.prepare(replace(options, privacy=level))
            with LocalFederation(directory / level, training.shards, training.config(level)) as federation:
                training.follow(federation, lambda _: None)
            audits[level] = audit_of_server(federation.state, None)
    return {level: audits[level] for level in levels}
