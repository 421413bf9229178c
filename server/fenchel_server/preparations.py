"""What the server adds up before each phase of the set-up in which the parties prepare their data."""

from collections.abc import Mapping

from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import PREPARE, ROWS, LayoutResult
from fenchel_server.moments import moment_tasks, read_moments
from fenchel_server.ranges import count_tasks, read_counts
from fenchel_server.rowlengths import length_tasks, read_lengths


def read_preparations(
    following: str, results: Mapping[ClientId, bytes], *, config: RunConfig, layout: FederationLayout, key: RunKey
) -> dict[ClientId, LayoutResult]:
    """The parties' answers in the phase before `following`; raises `ResultRejected`."""
    if following == PREPARE:
        return read_moments(results, config=config, layout=layout, key=key)
    if following == ROWS:
        return read_lengths(results, layout=layout, key=key)
    return read_counts(results, config=config, layout=layout, key=key)


def preparation_tasks(following: str, results: Mapping[ClientId, LayoutResult], record: bytes) -> dict[ClientId, bytes]:
    """The tasks of the phase `following`: for each party its sums, and the record of the phase before."""
    tasks = {PREPARE: moment_tasks, ROWS: length_tasks}.get(following, count_tasks)
    return tasks(results, record)
