"""Drives a toy run over an in-process transport, with a clock that moves a second at each look."""

import json

from fenchel_server.rounds.driver import Driver, Watcher
from fenchel_server.store import Ending, MemoryStore, RunStatus, Store
from support.inprocess import InProcessTransport
from support.records import RUN, Clock
from support.toyrun import PARTIES, ToyParts, ToyParty, toy_config

CONVERGED = Ending(RunStatus.COMPLETED, "close enough")


def toy_transport() -> InProcessTransport:
    return InProcessTransport({name: ToyParty(name) for name in PARTIES})


def toy_store(config: str | None = None) -> MemoryStore:
    store = MemoryStore()
    store.create_run(RUN, name="toy", config=config or toy_config())
    return store


def drive(
    store: Store, transport: InProcessTransport, *, parts: ToyParts | None = None, watch: Watcher = lambda _: None
) -> Ending:
    return Driver(RUN, parts or ToyParts(), store=store, transport=transport, clock=Clock(), watch=watch).drive()


def total_of(store: Store) -> float:
    snapshot = store.snapshot(RUN)
    assert snapshot is not None
    return float(json.loads(snapshot.state)["total"])


def undisturbed_total() -> float:
    store = toy_store()
    assert drive(store, toy_transport()) == CONVERGED
    return total_of(store)
