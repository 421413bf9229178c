"""Who is missing, in the metadata of a health check."""

from fenchel_common.ids import ClientId
from fenchel_common.wire.presence import MAX_NAMED, missing_from_text, missing_to_text


def test_missing_parties_are_read_back_in_whole_seconds() -> None:
    missing = {ClientId("south-1"): 1700000000.5, ClientId("north"): 12.0}
    assert missing_from_text(missing_to_text(missing)) == {"north": 12.0, "south-1": 1700000000.0}
    assert missing_from_text(missing_to_text({})) == {}


def test_what_is_no_party_is_left_out_and_the_number_is_bounded() -> None:
    assert missing_from_text("north=12 \x1b[2J=3 south=x east=1e9 =5 west=7") == {"north": 12.0, "west": 7.0}
    many = {ClientId(f"p{number}"): 1.0 for number in range(3 * MAX_NAMED)}
    assert len(missing_from_text(missing_to_text(many))) == MAX_NAMED
    assert len(missing_from_text(" ".join(f"p{number}=1" for number in range(3 * MAX_NAMED)))) == MAX_NAMED
