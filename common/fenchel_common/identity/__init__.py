"""The identities of a federation: certificates, the signed roster, and the kit with both."""

from fenchel_common.identity.certificates import Certificate, Role
from fenchel_common.identity.kit import Address, Kit
from fenchel_common.identity.livekit import LiveKit
from fenchel_common.identity.roster import Party, Roster

__all__ = ["Address", "Certificate", "Kit", "LiveKit", "Party", "Role", "Roster"]
