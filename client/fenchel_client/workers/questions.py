"""What a client asks the workers that hold its rows, sealed under the node secret on its way there and back."""

import io
import secrets
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.workers.nodesecret import NodeSecret
from fenchel_common.data.shard import arrays_in
from fenchel_common.errors import InvalidInput

Arrays = Mapping[str, NDArray[Any]]

ID_BYTES: Final = 16
ERROR: Final = "error"
"""The field of an answer that says why there is none."""
_QUESTION: Final = b"rows"
_ANSWER: Final = b"rows result"


def packed(arrays: Arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpacked(data: bytes) -> Arrays:
    return arrays_in(io.BytesIO(data), source="a message between a client and its workers")


def sealed_question(arrays: Arrays, secret: NodeSecret) -> bytes:
    """A random name, and the question sealed under it; the answer is sealed under the same name."""
    name = secrets.token_bytes(ID_BYTES)
    return name + secret.seal(packed(arrays), purpose=_QUESTION, context=name)


def opened_question(question: bytes, secret: NodeSecret) -> Arrays:
    return unpacked(secret.open(question[ID_BYTES:], purpose=_QUESTION, context=question[:ID_BYTES]))


def sealed_answer(arrays: Arrays, question: bytes, secret: NodeSecret) -> bytes:
    return secret.seal(packed(arrays), purpose=_ANSWER, context=question[:ID_BYTES])


def opened_answer(answer: bytes, question: bytes, secret: NodeSecret) -> Arrays:
    """The answer to this very question; `InvalidInput` if the worker says why there is none."""
    arrays = unpacked(secret.open(answer, purpose=_ANSWER, context=question[:ID_BYTES]))
    if ERROR in arrays:
        raise InvalidInput(str(arrays[ERROR]))
    return arrays
