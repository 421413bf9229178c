"""Clients of a mailbox without a network, and a phase that runs beside them."""

from concurrent.futures import Future, ThreadPoolExecutor

from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.wire.frames import TaskKey
from fenchel_server.rounds.transport import Gathered, PhaseId
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import Delivery, Item, Outbox

NORTH, SOUTH = ClientId("north"), ClientId("south")
PHASE = PhaseId(RunId("run"), RoundId(3), "inner_product")
KEY = TaskKey(RunId("run"), RoundId(3), "inner_product")
NEXT_KEY = TaskKey(RunId("run"), RoundId(3), "local_dual")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def attach(mailbox: Mailbox, client: ClientId, incarnation: str = "1", in_hand: TaskKey | None = None) -> Outbox:
    outbox = Outbox(client)
    mailbox.attach(outbox, incarnation=incarnation, in_hand=in_hand)
    return outbox


def received(outbox: Outbox) -> Item:
    item = outbox.take(timeout_s=10)
    assert item is not None
    return item


def reach_the_task(outbox: Outbox) -> None:
    """Reads until the task comes; the phase is then under way."""
    while not isinstance(received(outbox), Delivery):
        pass


class Gathering:
    """A gather that runs in its own thread, as the driver's would beside the connections."""

    def __init__(self, mailbox: Mailbox, tasks: dict[ClientId, bytes], *, deadline_s: float = 10) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Gathered] = self._pool.submit(mailbox.gather, PHASE, tasks, deadline_s=deadline_s)

    def outcome(self) -> Gathered:
        try:
            return self._future.result(20)
        finally:
            self._pool.shutdown()
