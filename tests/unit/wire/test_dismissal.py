"""The dismissal of a party, with what the server found wrong with its data."""

import pytest

from fenchel.v1 import federation_pb2
from fenchel_common.dismissal import MAX_UNFIT_FEATURES, Dismissal, Misfit, UnfitData
from fenchel_common.errors import ProtocolViolation
from fenchel_common.wire.frames import dismissal_from_proto, dismissal_to_proto


@pytest.mark.parametrize("unfit", [None, *(UnfitData(misfit, ("f1", "f2")) for misfit in Misfit)])
def test_a_dismissal_arrives_as_it_was_sent(unfit: UnfitData | None) -> None:
    sent = Dismissal("all runs are over", unfit)
    assert dismissal_from_proto(dismissal_to_proto(sent)) == sent


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (federation_pb2.Dismissal(misfit=99), "dismissal.misfit: is unknown"),  # type: ignore[arg-type]  # hostile
        (
            federation_pb2.Dismissal(
                misfit=federation_pb2.MISFIT_NO_SAMPLE_USED, features=b"a\0" * (MAX_UNFIT_FEATURES + 1)
            ),
            "6 names where at most 5 are due",
        ),
        (
            federation_pb2.Dismissal(misfit=federation_pb2.MISFIT_NO_SAMPLE_USED, features=b"a"),
            "the last name does not end",
        ),
    ],
)
def test_a_dismissal_that_no_server_sends_is_refused(message: federation_pb2.Dismissal, complaint: str) -> None:
    with pytest.raises(ProtocolViolation, match=complaint):
        dismissal_from_proto(message)


def test_the_reason_is_one_printable_line() -> None:
    assert dismissal_from_proto(federation_pb2.Dismissal(reason="a\nb" + "x" * 1000)).reason == "a b" + "x" * 497
