"""The `RunParts` of a real federation, from its configuration and roster."""

from collections.abc import Callable, Mapping

from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, ModelPart
from fenchel_common.wire.alignment import federation_layout_from_bytes
from fenchel_common.wire.limits import Extent, extents_of
from fenchel_common.wire.setup import model_part_to_bytes
from fenchel_server.algorithms import ALGORITHMS
from fenchel_server.contract import AlgorithmServer, PhaseRequest, ServerState
from fenchel_server.release import Release, put_together
from fenchel_server.runterms import result_limits, run_key
from fenchel_server.setup import FederationSetup
from fenchel_server.store import SetupRecord


class FederationRun:
    """The set-up, the algorithm and the last phase of one run.

    `certificate` gives the last certificate of the committed rounds; it is called in the last phase.
    """

    def __init__(self, config: RunConfig, roster: Roster, *, certificate: Callable[[], LastCertificate]) -> None:
        self._config = config
        self._roster = roster
        self._certificate = certificate
        self._extents: Mapping[ClientId, Extent] | None = None

    @property
    def clients(self) -> frozenset[ClientId]:
        return frozenset(self._roster.names)

    def setup(self, attempt: int) -> FederationSetup:
        return FederationSetup(self._config, self._roster, attempt=attempt)

    def restore(self, setup: SetupRecord, snapshot: ServerState) -> AlgorithmServer:
        settings = self._config.algorithm_settings()
        return ALGORITHMS[settings.family.name][self._config.algorithm].restore(
            snapshot,
            settings=settings,
            layout=federation_layout_from_bytes(setup.layout),
            key=run_key(self._config, setup.public_key),
        )

    def finish(self, setup: SetupRecord, algorithm: AlgorithmServer) -> PhaseRequest:
        layout = federation_layout_from_bytes(setup.layout)
        certificate = self._certificate()
        tasks = {
            client: model_part_to_bytes(
                ModelPart(
                    state=algorithm.last_state(client),
                    primal=certificate.primal,
                    dual=certificate.dual,
                    gap=certificate.gap,
                    figures=certificate.scores,
                )
            )
            for client in layout.clients
        }
        return PhaseRequest(FINISH, tasks)

    def limits(self, phase: str, setup: SetupRecord) -> Mapping[ClientId, int]:
        if self._extents is None:
            layout = federation_layout_from_bytes(setup.layout)
            self._extents = extents_of(layout, key_bits=self._config.key.bits)
        return result_limits(phase, self._config, self._extents)

    def released(self, setup: SetupRecord, results: Mapping[ClientId, bytes]) -> Release | None:
        if not self._roster.release_model_to_server:
            return None
        layout = federation_layout_from_bytes(setup.layout)
        noise = self._config.release_noise(layout.sample_count)
        return put_together(
            results,
            layout=layout,
            certificate=self._certificate(),
            noise=noise,
            classes=self._config.algorithm_settings().class_names,
        )
