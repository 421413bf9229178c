"""The base of the client halves of HyFDCA and of its corrective variant."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Origins, RowCodec
from fenchel_client.algorithms.duals import own_norms
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.table import PartyTable
from fenchel_client.transcript import Book
from fenchel_common.algorithms.dual import DualSettings, ProductResult
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.hyfdca import product_result_to_bytes
from fenchel_common.wire.scope import Scope

S = TypeVar("S", bound=DualSettings)
B = TypeVar("B", bound=Book)


class DualClient(ABC, Generic[S, B]):
    """The client half of an algorithm on dual variables; a subclass answers the phases of its rounds.

    Parameters
    ----------
    layout
        The rows of `table` that fill each block.
    cipher
        Encrypts the values that leave the party, decrypts those that come.
    key
        The key of the vectors by sample, or none in a run in clear.
    seal
        Tags the vectors that leave the party, checks the tags of those that come.
    serialising
        Makes a context in which messages are turned into values and values into messages; it is timed.
    """

    def __init__(
        self,
        settings: S,
        *,
        layout: ClientLayout,
        table: PartyTable,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
        serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._settings = settings
        self._loss = settings.loss_function
        self._serialising = serialising
        self._rows = PartyRows(layout, table)
        if self._rows.y is not None:
            self._loss.check_labels(self._rows.y)
        self._layout = layout
        self._codec = RowCodec(self._rows, layout=layout, cipher=cipher, key=key, privacy=settings.privacy, seal=seal)
        self._scope = Scope.of_client(layout, key=key, privacy=settings.privacy, alpha_format=settings.alpha_format)

    def preparation(self) -> bytes:
        """enc(‖x_{k,i}‖²) of the blocks that other parties hold too; empty if there are none."""
        norms = own_norms(self._rows, self._codec)
        if norms is None:
            return b""
        with self._serialising():
            return product_result_to_bytes(ProductResult(norms))

    @abstractmethod
    def first_book(self) -> B:
        """As for `AlgorithmClient.first_book`."""

    @abstractmethod
    def answer(self, phase: str, body: bytes, book: B) -> bytes:
        """As for `AlgorithmClient.answer`; `InvalidInput` for a phase that the algorithm does not have."""

    def final_model(self, state: bytes, book: B) -> NDArray[np.float64]:
        """The weights of this client's features, sorted by name; its memory is neither used nor changed."""
        model = self._model_in(state)
        origins = self._model_origins(book)
        due = tuple(block for block in self._layout.feature_blocks if origins(block))
        if due != (() if model is None else model.blocks):
            raise InvalidInput("model.blocks: must be the blocks of features that have a model on record")
        return np.zeros(self._rows.width) if model is None else self._codec.from_features(model, origins)

    @abstractmethod
    def _model_in(self, state: bytes) -> BlockVector | None:
        """The model by feature in the run's last state, None for a model of zeros; `InvalidInput` if malformed."""

    @abstractmethod
    def _model_origins(self, book: B) -> Origins:
        """The contributions of which the final model consists; none for a block that is zero."""
