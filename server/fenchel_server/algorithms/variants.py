"""HyFDCA's server half for the run's kind of local step."""

from collections.abc import Mapping

from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer


class HyfdcaVariants:
    """Makes and restores the half that `local` asks for."""

    def __call__(
        self,
        settings: HyfdcaSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        openings: Mapping[ClientId, bytes],
    ) -> HyfdcaServer | CorrectiveServer:
        return _half(settings)(settings, layout=layout, key=key, openings=openings)

    def restore(
        self, snapshot: bytes, *, settings: HyfdcaSettings, layout: FederationLayout, key: RunKey
    ) -> HyfdcaServer | CorrectiveServer:
        return _half(settings).restore(snapshot, settings=settings, layout=layout, key=key)


def _half(settings: HyfdcaSettings) -> type[HyfdcaServer] | type[CorrectiveServer]:
    return CorrectiveServer if settings.local == "corrective" else HyfdcaServer
