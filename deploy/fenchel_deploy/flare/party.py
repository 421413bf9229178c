"""A party of a federation as an executor of NVIDIA FLARE, in the job process of its site."""

import logging
import threading
from contextlib import ExitStack
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fenchel_client.party import Party
from fenchel_client.session import Session
from fenchel_client.transport.answering import Reception
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Kit, LiveKit
from fenchel_common.processmemory import keep_heaps_small
from fenchel_deploy.flare.messages import TOPIC, messages_of, shareable_of, unavailable
from fenchel_deploy.flare.site import Site
from fenchel_deploy.owntable import OwnTable, check_party

log = logging.getLogger(__name__)


class FenchelParty(Executor):  # type: ignore[misc]  # FLARE ships no types
    """Takes part from the start of the job to its end; FLARE's own tasks have no use here."""

    def __init__(self) -> None:
        super().__init__()
        self._reception = Reception()
        self._session: Session | None = None
        self._thread: threading.Thread | None = None
        self._open = ExitStack()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Starts the session with the job, and stops it with the job."""
        engine = fl_ctx.get_engine()
        if event_type == EventType.ABOUT_TO_START_RUN:
            engine.register_aux_message_handler(TOPIC, self._answer)
        elif event_type == EventType.START_RUN:
            try:
                self._start(Path(engine.get_workspace().get_site_config_dir()), fl_ctx.get_identity_name())
            except Exception:
                log.exception("the party did not start")
                self.system_panic("this site's party did not start: its log says why", fl_ctx)
        elif event_type == EventType.END_RUN and self._session is not None and self._thread is not None:
            self._session.stop()
            self._thread.join()
            self._open.close()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """FLARE gives no tasks to a party."""
        del task_name, shareable, fl_ctx, abort_signal
        return make_reply(ReturnCode.TASK_UNSUPPORTED)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        del topic, fl_ctx
        messages = messages_of(request)
        reply = None if messages is None else self._reception.answer(messages)
        return unavailable() if reply is None else shareable_of(reply)

    def _start(self, local: Path, site_name: str) -> None:
        keep_heaps_small(heaps=1)
        site = Site.read(local)
        self._open.enter_context(site.own_log())
        kit = Kit.load(site.kit)
        if kit.name != site_name:
            raise InvalidInput(f"the kit is of {kit.name}, this site is {site_name}: both must have the same name")
        if site.data is None:
            raise InvalidInput("`data` in the site's fenchel.toml is missing: the party's table")
        table, consent, kit_in_use = OwnTable(site.data), site.consent(), LiveKit(kit)
        shard = table.read()
        check_party(kit, shard, consent, data=site.data)
        party = Party(kit_in_use, shard, state=site.state, consent=consent, newer=table.newer)
        self._session = Session(
            kit_in_use, party.handle, dial=self._reception.dial, idle=party.idle, limit=party.task_limit
        )
        self._thread = threading.Thread(target=self._attend, args=(self._session,), name="fenchel", daemon=True)
        self._thread.start()

    def _attend(self, session: Session) -> None:
        try:
            end = session.run()
            log.info("%s: %s", end.kind.value, end.reason)
        except Exception:
            log.exception("the session has failed")
