"""How runs come into a server's queue; the server works on them in the order in which they came."""

from collections.abc import Sequence

from fenchel_common.errors import InvalidConfig, RecordConflict
from fenchel_common.identity import Roster
from fenchel_common.runconfig import RunConfig
from fenchel_server.store import RunRecord, Store, new_run_id
from fenchel_server.store.base import RESUMABLE

MOST_QUEUED = 1000
"""The most runs that wait in the queue of one server."""


def enqueue(store: Store, configs: Sequence[RunConfig]) -> tuple[RunRecord, ...]:
    """Puts the runs on record, all or none; one that is on record already is queued again if it stopped or failed."""
    known = {record.name: record for record in store.runs()}
    for config in configs:
        if config.name in known and known[config.name].config != config.to_json():
            raise RecordConflict(
                f"run {config.name!r} is on record here with another configuration; give the new one another name"
            )
    if len({config.name for config in configs}) < len(configs):
        raise RecordConflict("two of the runs have the same name; give each a name of its own")
    return tuple(_asked_for(store, config, known.get(config.name)) for config in configs)


def submit(store: Store, config: RunConfig) -> RunRecord:
    """Puts a new run at the end of the queue; `RecordConflict` if its name is taken or the queue is full."""
    if len(store.queued()) >= MOST_QUEUED:
        raise RecordConflict(f"{MOST_QUEUED} runs wait already; wait until some are over, or stop some")
    return store.create_run(new_run_id(), name=config.name, config=config.to_json())


def check_roster(config: RunConfig, roster: Roster) -> None:
    """Raises `InvalidConfig` if the configuration asks for what the roster rules out."""
    if config.release is not None and not roster.release_model_to_server:
        raise InvalidConfig("release: the roster keeps the model from the server, so there is nothing to put noise on")


def _asked_for(store: Store, config: RunConfig, known: RunRecord | None) -> RunRecord:
    if known is None:
        return submit(store, config)
    return store.requeue(known.run) if known.status in RESUMABLE else known
