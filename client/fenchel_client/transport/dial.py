"""The way from a session to the server over gRPC."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fenchel_client.connection import TaskLimit
from fenchel_client.desk import Desk
from fenchel_client.transport.channel import open_channel
from fenchel_client.transport.link import Link
from fenchel_common.identity import Address, Kit
from fenchel_common.wire.frames import PARTY_METADATA_KEY


@dataclass(frozen=True, slots=True)
class GrpcDial:
    """Dials the kit's server, or `address` instead; `insecure` is for debugging on loopback alone."""

    address: Address | None = None
    insecure: bool = False

    @contextmanager
    def __call__(
        self, kit: Kit, desk: Desk, *, incarnation: str, limit: TaskLimit, outdated: Callable[[], bool]
    ) -> Iterator[Link]:
        with open_channel(kit, address=self.address, insecure=self.insecure) as channel:
            yield Link(
                channel,
                desk,
                incarnation=incarnation,
                roster_version=kit.roster.version,
                outdated=outdated,
                limit=limit,
                metadata=((PARTY_METADATA_KEY, kit.name),) if self.insecure else (),
            )
