"""Attacks on recorded runs of real halves: each must succeed where a leak is known and fail where safety is claimed."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from fenchel_common.errors import InvalidInput
from fenchel_deploy.attacks.federation import bench
from fenchel_deploy.attacks.findings import Attack, markdown
from fenchel_deploy.attacks.insider_cases import INSIDER_ATTACKS
from fenchel_deploy.attacks.protocol_cases import PROTOCOL_ATTACKS
from fenchel_deploy.attacks.ring_cases import RING_ATTACKS
from fenchel_deploy.attacks.rogue_cases import ROGUE_ATTACKS
from fenchel_deploy.attacks.row_cases import ROW_ATTACKS
from fenchel_deploy.attacks.sum_cases import SUM_ATTACKS

__all__ = ["ATTACKS", "Attack", "markdown", "run_attacks"]

ATTACKS: Final[Mapping[str, Attack]] = {
    attack.name: attack
    for attack in (
        *ROW_ATTACKS,
        *INSIDER_ATTACKS,
        *PROTOCOL_ATTACKS,
        *RING_ATTACKS,
        *ROGUE_ATTACKS,
        *SUM_ATTACKS,
    )
}


def run_attacks(
    names: Sequence[str] | None = None, *, tell: Callable[[str], None] = lambda _: None
) -> list[dict[str, object]]:
    """Mounts the named attacks, or all; `tell` is given the name of each before it starts.

    Each finding has the keys attack, who, level, setting, succeeds, score, measure, claim (leaks or safe),
    note and unchecked.
    """
    for name in names or ():
        if name not in ATTACKS:
            raise InvalidInput(f"attack: {name!r} is unknown; use one of {', '.join(ATTACKS)}")
    findings = []
    with _hushed(), bench() as runs:
        for name in ATTACKS if names is None else names:
            tell(name)
            findings += [finding.to_dict() for finding in ATTACKS[name].findings(runs)]
    return findings


@contextmanager
def _hushed() -> Iterator[None]:
    """Suppresses warnings of the attacked federations, which have nobody's data."""
    loggers = [logging.getLogger(name) for name in ("fenchel_client", "fenchel_server")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
