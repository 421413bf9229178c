"""A server whose roster is older than the party's: its word against the party is no reason to leave."""

from dataclasses import dataclass
from typing import cast

import grpc
import pytest

from fenchel_client.transport.link import Link
from fenchel_common.errors import CertificateReplaced, FenchelError, NotOnRoster, RosterExpired, ServerUnavailable
from fenchel_common.wire.status import ERROR_METADATA_KEY, ROSTER_METADATA_KEY, STATUSES


@dataclass(frozen=True)
class EndedCall:
    """As much of a call as tells how it ended."""

    error: type[FenchelError]
    version: int

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((ERROR_METADATA_KEY, self.error.__name__), (ROSTER_METADATA_KEY, str(self.version)))

    def code(self) -> grpc.StatusCode:
        return STATUSES[self.error]

    def details(self) -> str:
        return "refused"


@pytest.mark.parametrize("error", [CertificateReplaced, NotOnRoster, RosterExpired])
@pytest.mark.parametrize(("theirs", "stays"), [(2, True), (3, False), (4, False)])
def test_a_party_with_the_newer_roster_tries_again(error: type[FenchelError], theirs: int, stays: bool) -> None:
    link = Link.__new__(Link)
    link._roster_version = 3
    refusal = link._refusal(cast(grpc.Call, EndedCall(error, theirs)))
    assert isinstance(refusal, ServerUnavailable if stays else error)
