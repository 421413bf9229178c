"""The server of a federation as a workflow of NVIDIA FLARE."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.signal import Signal

from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.flare.messages import TOPIC, messages_of, shareable_of
from fenchel_deploy.flare.site import Site
from fenchel_server.app import serve
from fenchel_server.transport.asking import AskingTransport

log = logging.getLogger(__name__)


class FenchelServer(Controller):  # type: ignore[misc]  # FLARE ships no types
    """Runs one run to its end; `run` is the content of a run's file. Each party is the site of the same name."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        super().__init__()
        self._run = run

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Everything happens in `control_flow`."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Everything has ended with `control_flow`."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Works on the run; a run that an earlier job left unfinished is continued.

        FLARE kills the process of a job that is aborted, and rounds on record outlive that.
        """
        del abort_signal
        engine = fl_ctx.get_engine()

        def ask(client: ClientId, request: Sequence[bytes], *, timeout_s: float) -> Sequence[bytes] | None:
            with engine.new_context() as context:
                replies = engine.send_aux_request(
                    targets=[client],
                    topic=TOPIC,
                    request=shareable_of(request),
                    timeout=timeout_s,
                    fl_ctx=context,
                    optional=True,
                )
            return messages_of((replies or {}).get(client))

        def listen(kit: LiveKit, *, address: Address) -> AskingTransport:  # noqa: ARG001 - of the interface
            return AskingTransport(kit, ask)

        site = Site.read(Path(engine.get_workspace().get_site_config_dir()))
        with site.own_log():
            kit = Kit.load(site.kit)
            statuses = serve(
                kit,
                site.state,
                configs=[RunConfig.from_mapping(self._run)],
                address=kit.server_address,
                listen=listen,
                stay=False,
                announce=lambda event: log.info("%s", json.dumps(event)),
                results=site.results,
            )
        if unfinished := sorted(str(status) for status in statuses if status != "completed"):
            self.system_panic(f"the run ended: {', '.join(unfinished)}", fl_ctx)
