import pytest

from fenchel_client.alignment.hmac_ids import keyed_pseudonyms
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId

SECRET = bytes(range(32))
RUN = RunId("run-1")


def test_the_same_id_gets_the_same_pseudonym_at_every_party() -> None:
    assert (
        keyed_pseudonyms(["a", "b"], secret=SECRET, run=RUN)
        == keyed_pseudonyms(["b", "a"], secret=SECRET, run=RUN)[::-1]
    )


def test_pseudonyms_depend_on_secret_and_run() -> None:
    reference = keyed_pseudonyms(["a"], secret=SECRET, run=RUN)
    assert keyed_pseudonyms(["a"], secret=SECRET[::-1], run=RUN) != reference
    assert keyed_pseudonyms(["a"], secret=SECRET, run=RunId("run-2")) != reference


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 32 bytes"):
        keyed_pseudonyms(["a"], secret=SECRET[:31], run=RUN)
