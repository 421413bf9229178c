"""The record of a set-up under way, by which a new process of the party goes on where the old one ended."""

import hashlib
from dataclasses import replace
from typing import Final

from fenchel_client.alignment.blinders import BlindingSecrets
from fenchel_client.setup import SetupClient
from fenchel_common.errors import Refusal
from fenchel_common.framing import framed
from fenchel_common.setup import PartySetUp
from fenchel_common.wire.alignment import AlignmentMethod

RESTARTED: Final = "it restarted during the set-up"


def setup_record(setup: SetupClient, *, attempt: int) -> PartySetUp:
    """What a new process of the party needs to go on with this attempt at a set-up; the party has the run's secrets."""
    assert setup.config is not None, "the party has introduced itself"
    assert setup.introduction is not None, "the party has introduced itself"
    assert setup.secrets is not None, "the party has the run's secrets"
    exponents = setup.exponents
    return PartySetUp(
        setup.run,
        setup.config,
        attempt,
        _data_digest(setup),
        setup.introduction,
        replace(setup.secrets, masks=setup.masks),
        introductions=setup.introductions or b"",
        pairs=setup.pairs,
        exponents=(b"", b"") if exponents is None else (exponents.raising, exponents.remaining),
        start=setup.start_task,
        names=setup.names_task,
    )


def take_up_setup(setup: SetupClient, kept: PartySetUp) -> None:
    """Goes on with a set-up that another process of the party began.

    Raises `Refusal` if roster or data have changed since, or if the run aligns by the ring: the exponent of a ring is
    on no record, so the set-up must begin again.
    """
    if kept.data != _data_digest(setup):
        raise Refusal(
            f"this party's roster or data changed during the set-up of run {setup.run}", public_reason=RESTARTED
        )
    if kept.start and kept.config.alignment == AlignmentMethod.RING.value:
        raise Refusal(f"this process started during the alignment of run {setup.run}", public_reason=RESTARTED)
    setup.config, setup.introduction = kept.config, kept.introduction
    setup.secrets, setup.masks = replace(kept.secrets, masks=None), kept.secrets.masks
    setup.introductions, setup.pairs = kept.introductions or None, kept.pairs
    if any(kept.exponents):
        setup.exponents = BlindingSecrets(*kept.exponents)
    if kept.start:
        setup.begin_alignment(kept.start, kept.config)
    if kept.names:
        setup.read_names(kept.names)


def _data_digest(setup: SetupClient) -> bytes:
    """A digest of the party's roster, ids and features."""
    names = (setup.own_table.ids, setup.own_table.features)
    parts = (hashlib.sha256(framed(*(name.encode() for name in given))).digest() for given in names)
    return hashlib.sha256(framed(bytes.fromhex(setup.kit.roster.fingerprint()), *parts)).digest()
