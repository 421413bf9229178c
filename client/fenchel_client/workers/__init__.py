"""Workers on a cluster of the party's own, where one machine is not enough."""

from typing import Final

from fenchel_client.task import Cluster

LOCAL: Final = "local"


def cluster_at(workers: str) -> Cluster | None:
    """The cluster that `--workers` names; None for the cores of this machine."""
    if workers == LOCAL:
        return None
    from fenchel_client.workers.rayworkers import RayCluster  # loads Ray, which takes seconds

    return RayCluster(workers)
