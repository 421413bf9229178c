"""A Ray cluster of two nodes, as a program: `ray_cluster.py IP` prints its address, and ends with its input."""

import os
import sys
import time
from importlib import import_module
from typing import Any

# These give a busy machine time.
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_agent_register_timeout_ms="200000",
    RAY_worker_register_timeout_seconds="200",
    RAY_raylet_start_wait_time_s="200",
    RAY_idle_worker_killing_time_threshold_ms="600000",
)
if sys.argv[1].startswith("127."):
    # Without this, Ray takes another address of the machine in place of a loopback address.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

# Types are checked where Ray is not installed, too.
services: Any = import_module("ray._private.services")
cluster_utils: Any = import_module("ray.cluster_utils")

NODES, STORE_BYTES = 2, 80_000_000
NODE_S = 200.0
_node_at_once = services.get_node


def node_in_time(gcs_address: str, node_id: str) -> object:
    """Ray gives a node 30 seconds to start, which no setting changes."""
    end = time.monotonic() + NODE_S
    while True:
        try:
            return _node_at_once(gcs_address, node_id)
        except RuntimeError:
            if time.monotonic() > end:
                raise


services.get_node = node_in_time


def main() -> None:
    cluster = cluster_utils.Cluster()
    for _ in range(NODES):
        cluster.add_node(
            num_cpus=1, node_ip_address=sys.argv[1], object_store_memory=STORE_BYTES, include_dashboard=False
        )
    sys.stdout.write(f"address {cluster.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
