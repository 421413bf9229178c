"""Ciphertexts that are checked and added on all cores."""

from collections.abc import Iterator

import pytest

from fenchel_common.crypto import paillier, sumcores
from fenchel_common.crypto.sumcores import SumCores
from fenchel_common.errors import InvalidCiphertext, MalformedVector
from support.keys import SMALL_BITS, private_key

KEY = private_key(SMALL_BITS).public_key
WIDTH = KEY.ciphertext_bytes
COUNT = 7
"""Does not divide by the number of cores: the last share is shorter."""


@pytest.fixture(scope="module")
def cores() -> Iterator[SumCores]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sumcores, "LONG", 1)
        patch.setattr(sumcores, "core_count", lambda: 2)
        made = SumCores()
        yield made
        made.close()


def ciphertexts(first: int) -> bytes:
    return paillier.concatenate([KEY.n_squared - first - place for place in range(COUNT)], WIDTH)


def test_all_cores_give_the_bytes_that_one_gives(cores: SumCores) -> None:
    buffers = [ciphertexts(3), ciphertexts(1000), ciphertexts(5)]
    assert cores.add_many(KEY, buffers) == paillier.add_many(KEY, buffers)
    cores.validate(KEY, buffers[0])
    assert len(cores._cores._started) == 2


def test_a_ciphertext_that_is_refused_is_named_by_its_place_in_the_whole(cores: SumCores) -> None:
    bad = ciphertexts(3)[: (COUNT - 1) * WIDTH] + bytes(WIDTH)
    with pytest.raises(InvalidCiphertext, match=f"ciphertext {COUNT - 1} is zero"):
        cores.validate(KEY, bad)
    with pytest.raises(MalformedVector, match="cut or padded"):
        cores.validate(KEY, bad[:-1])
    cores.validate(KEY, ciphertexts(3))
