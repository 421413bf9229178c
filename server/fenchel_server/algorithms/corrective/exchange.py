"""Whether the answers of a phase of corrective HyFDCA fit what was asked, what they add up to and what they certify."""

import math
from collections.abc import Mapping

from fenchel_common.algorithms.corrective.messages import FIGURES, DualResult, Figures, Opening, PrimalResult, Products
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import ALPHA_FORMAT
from fenchel_common.blocks import BlockVector, check_fresh
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_snapshot import CorrectiveState
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.certificate import Certificate, Rounding
from fenchel_server.algorithms.phased import Answers, read_answers


class CorrectiveExchange:
    """Reads results; for one layout, key and privacy level."""

    def __init__(self, layout: FederationLayout, key: RunKey, *, privacy: Privacy) -> None:
        self._shared = layout.sample_index.shared
        self._scopes = {
            client: Scope.of_federation(layout, client, key=key, privacy=privacy) for client in layout.clients
        }

    def products(
        self, openings: Mapping[ClientId, Opening], results: Mapping[ClientId, bytes], *, new: int
    ) -> Answers[Products]:
        def read(client: ClientId, body: bytes) -> Products:
            answer = wire.product_result_from_bytes(body, self._scopes[client])
            if answer is None:
                raise InvalidInput("it has lost its memory of the run")
            blocks = tuple(block for block in openings[client].live_blocks if block in self._shared)
            _check(answer.point, blocks, "point")
            _check(answer.vertex, blocks if new > 1 else (), "vertex")
            _check_terms(answer.gram, "gram")
            return answer

        return read_answers(openings, results, read)

    def duals(
        self, openings: Mapping[ClientId, Opening], results: Mapping[ClientId, bytes], *, solving: frozenset[ClientId]
    ) -> Answers[DualResult]:
        def read(client: ClientId, body: bytes) -> DualResult:
            answer = wire.dual_result_from_bytes(body, self._scopes[client])
            if answer is None:
                raise InvalidInput("it has lost its memory of the run")
            opening = openings[client]
            _check(answer.point, opening.live_blocks if client in solving else (), "point")
            _check(answer.alpha, opening.report_blocks, "alpha")
            _check(answer.weights, opening.feature_blocks, "weights")
            _check_figures(answer.figures, FIGURES, "figures")
            return answer

        return read_answers(openings, results, read)

    def primals(
        self,
        openings: Mapping[ClientId, Opening],
        results: Mapping[ClientId, bytes],
        *,
        solved: bool,
        vertex: bool,
        report: bool,
    ) -> Answers[PrimalResult]:
        def read(client: ClientId, body: bytes) -> PrimalResult:
            answer = wire.primal_result_from_bytes(body, self._scopes[client])
            every = tuple(self._scopes[client].feature_blocks)
            _check(answer.point, every if solved else (), "point")
            _check(answer.vertex, every if vertex else (), "vertex")
            _check(answer.model, openings[client].feature_blocks, "model")
            if (answer.conjugates is not None) != solved or (answer.figures is not None) != report:
                raise InvalidInput("conjugates, figures: must be there if and only if they were asked for")
            if answer.conjugates is not None:
                _check_terms(answer.conjugates, "conjugates")
            return answer

        return read_answers(openings, results, read)


def certified(
    figures: Figures, state: CorrectiveState, *, settings: CorrectiveSettings, layout: FederationLayout
) -> Certificate:
    """P at the best model, D at what entered the round, and by how much fixed point can have put them off.

    D is of dual variables whose w is the one that the parties know but for `drift`. P allows for the model that is put
    on record, which is rounded once more.
    """
    lambda_, loss = settings.lambda_, settings.loss_function
    rounding = Rounding.of(layout, lipschitz=loss.lipschitz, shares=len(layout.clients))
    drift = rounding.model * (2 + state.relative_rounds + state.collapses)
    drift += state.collapses * ALPHA_FORMAT.resolution * figures.row_norm / lambda_
    error = rounding.losses + (2.0 + lambda_) * rounding.figures
    error += loss.lipschitz * figures.row_norm * rounding.model
    error += lambda_ * (math.sqrt(max(figures.squared_norm, 0.0)) * drift + drift * drift / 2.0)
    return Certificate(
        primal=figures.primal,
        dual=figures.dual,
        gap=figures.primal - figures.dual + error,
        gap_error=error,
        accuracy=figures.accuracy,
    )


def _check(vector: BlockVector | None, blocks: tuple[int, ...], name: str) -> None:
    if (vector is not None) != bool(blocks):
        raise InvalidInput(f"{name}: must be there if and only if blocks were asked for")
    if vector is not None:
        check_fresh(vector, blocks, name)


def _check_terms(vector: Vector, name: str) -> None:
    if vector.terms != 1:
        raise InvalidInput(f"{name}: must be freshly made, with one term")


def _check_figures(vector: Vector, length: int, name: str) -> None:
    _check_terms(vector, name)
    if vector.length != length:
        raise InvalidInput(f"{name}: must have {length} values")
