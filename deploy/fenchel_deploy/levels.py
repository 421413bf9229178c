"""Runs the same small federation at several privacy levels, so that their ledgers can be compared."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fenchel_common.errors import InvalidInput
from fenchel_deploy.audit import Audit, audit_of_server
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions
from fenchel_deploy.local import LocalFederation


def compare(
    levels: Sequence[str], options: DemonstrationOptions, *, directory: Path, tell: Callable[[str], None]
) -> dict[str, Audit]:
    """Runs the demonstration, as processes on this machine, at each of the levels; returns their audits by level."""
    known = options.profile.privacy
    if wrong := [level for level in levels if level not in known]:
        raise InvalidInput(f"--compare: {options.algorithm} knows {', '.join(known)}; {wrong[0]!r} is none of these")
    audits: dict[str, Audit] = {}
    for level in known:
        if level in levels:
            tell(level)
            demonstration = Demonstration.prepare(replace(options, privacy=level))
            with LocalFederation(directory / level, demonstration.shards, demonstration.config(level)) as federation:
                demonstration.follow(federation, lambda _: None)
            audits[level] = audit_of_server(federation.state, None)
    return {level: audits[level] for level in levels}
