"""The roster as the operator keeps it: one file in the authority's folder, and signed copies in the kits.

OUT/ca/roster.json                   the newest roster; the next one's version is one higher
OUT/NAME/roster.json, roster.sig     the same, signed, in each kit
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from fenchel_common.errors import InvalidInput, RosterTampered
from fenchel_common.identity.kit import ROSTER_FILE, SIGNATURE_FILE
from fenchel_common.identity.roster import Roster
from fenchel_deploy.authority import Authority, write_atomic
from fenchel_deploy.federation_file import Federation


def newest_roster(ca: Path) -> Roster | None:
    """The roster that was made last; None before the first."""
    path = ca / ROSTER_FILE
    try:
        return Roster.from_bytes(path.read_bytes())
    except FileNotFoundError:
        return None
    except (RosterTampered, OSError) as error:
        raise InvalidInput(
            f"{path} is damaged; put back the roster.json of the newest kit: the next version follows from it"
        ) from error


def next_roster(
    federation: Federation,
    authority: Authority,
    keys: Mapping[str, str],
    *,
    before: Roster | None,
    renew_within_days: int,
    now: datetime,
) -> Roster:
    """The roster of `federation` and `keys`: `before` if that still fits and does not expire, else the next version.

    `keys` are the fingerprints of keys by name, the server's among them; a party may lack one.
    """
    end = min(now + timedelta(days=federation.validity_days), authority.certificate.not_after).replace(microsecond=0)
    fresh = Roster(
        federation=federation.name,
        authority_fingerprint=authority.certificate.fingerprint(),
        version=1,
        not_after=end,
        server_name=federation.server.name,
        server_key_fingerprint=keys[federation.server.name],
        parties=federation.parties(keys),
        release_model_to_server=federation.release_model_to_server,
    )
    if before is None:
        return fresh
    same = replace(fresh, version=before.version, not_after=before.not_after) == before
    if same and before.days_left(now) > renew_within_days:
        return before
    return replace(fresh, version=before.version + 1)


def hand_out(roster: Roster, authority: Authority, *, ca: Path, kits: Iterable[Path]) -> None:
    """Keeps the roster as the newest, and puts it, signed, into the kits.

    The roster must be written last, after the key and certificate that it names, so that a process that uses the kit
    takes up all of them or none.
    """
    # Written before any kit has the roster, so that no other roster can get its version.
    write_atomic(ca / ROSTER_FILE, roster.to_bytes())
    signature = roster.sign(authority.key)
    for kit in kits:
        write_atomic(kit / ROSTER_FILE, roster.to_bytes())
        write_atomic(kit / SIGNATURE_FILE, signature)
