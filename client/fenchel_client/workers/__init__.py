"""Workers on a cluster of the party's own, where one machine is not enough."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fenchel_client.workers.rayworkers import RayCluster

LOCAL: Final = "local"


def cluster_at(workers: str) -> "RayCluster | None":
    """The cluster that `--workers` names; None for the cores of this machine."""
    if workers == LOCAL:
        return None
    from fenchel_client.workers.rayworkers import RayCluster  # loads Ray, which takes seconds

    return RayCluster(workers)
