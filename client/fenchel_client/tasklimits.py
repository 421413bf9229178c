"""The most bytes that a party accepts in a task, by its own data and records; used before any byte is in memory."""

from fenchel_client.coverage import client_layout_of
from fenchel_client.runrecords import NO_KEY, RunRecords
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.identity import Kit
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import BEFORE_ROUNDS, FINISH, GROUP_KEYS, LABELS, LAYOUT
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.limits import Extent, finish_task_limit, layout_task_limit, round_limits, setup_limits


def before_layout(key: TaskKey) -> bool:
    """Whether a task belongs to the phases before the party has its layout, or gives it the layout."""
    return key.round == 0 and (key.phase == LAYOUT or key.phase not in (*BEFORE_ROUNDS, LABELS))


def setup_task_limit(key: TaskKey, config: RunConfig | None, *, table: PartyTable, parties: int) -> int:
    """The limit of a task up to the layout; `config` are the terms, if the party knows them."""
    try:
        if key.phase not in (GROUP_KEYS, LAYOUT):
            return setup_limits(key.phase, parties=parties).task
    except InvalidInput as error:
        raise _no_phase(error) from error
    # Several parties may hold the constant feature of the same samples.
    overlapping = config is None or config.overlap == "first" or bool(config.features and config.features.intercept)
    return layout_task_limit(
        samples=len(table.ids), features=len(table.features), parties=parties, overlapping=overlapping
    )


def round_task_limit(key: TaskKey, extent: Extent, settings: AlgorithmSettings) -> int:
    """The limit of a task after the layout, by the extent of the party's layout."""
    try:
        return round_limits(key.phase, extent, settings, round_id=key.round).task
    except InvalidInput as error:
        raise _no_phase(error) from error


def recorded_task_limit(key: TaskKey, records: RunRecords, *, table: PartyTable, kit: Kit) -> int:
    """The limit of a task after the layout, if the run is not active."""
    kept = records.kept(key.run)
    if kept is None:
        if key.phase == FINISH:
            parties, features = len(kit.roster.parties), records.folder.feature_count(key.run)
            return finish_task_limit(features=features, parties=parties, round_id=key.round)
        raise Refusal(f"there is no key of run {key.run} here", public_reason=NO_KEY)
    try:
        layout = client_layout_of(kept, table, party=kit.client_id)
        extent = Extent.of_client(layout, key_bits=kept.config.key.bits)
    except InvalidInput as error:
        raise _no_phase(error) from error
    return round_task_limit(key, extent, kept.config.algorithm_settings())


def _no_phase(error: InvalidInput) -> Refusal:
    return Refusal(str(error), public_reason="this task belongs to no phase of a run")
