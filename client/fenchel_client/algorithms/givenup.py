"""How often a party lets the server give up what the party gave under masks between pairs."""

from typing import Final

from fenchel_common.errors import InvalidInput

MAX_ROUNDS_GIVEN_UP: Final = 3
"""The most rounds of a run with masks in which a party's contributions count for nothing because another one failed."""


def one_more_given_up(count: int) -> int:
    """The number of rounds that were given up, with one more; `InvalidInput` if it is one too many.

    The next round asks for the same again of the others. So each such round shows a server that colludes with a party
    the contribution of the one that failed, if the server got it.
    """
    if count >= MAX_ROUNDS_GIVEN_UP:
        raise InvalidInput(
            f"rounds: more than {MAX_ROUNDS_GIVEN_UP} were given up because a party failed; a run with the cipher "
            "paillier goes on without it"
        )
    return count + 1
