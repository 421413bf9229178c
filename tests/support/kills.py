"""Processes of a federation that are killed in mid run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_deploy.local import LocalFederation


def kill_server(federation: LocalFederation) -> None:
    """Kills the server's process, so that it cannot clean up."""
    assert federation.server is not None
    assert federation.server.stdout is not None
    federation.server.kill()
    federation.server.wait()
    federation.server.stdout.close()


def kill_client(federation: LocalFederation, name: str) -> None:
    """Kills a client's process, so that it cannot clean up."""
    federation.clients[name].kill()
    federation.clients[name].wait()


def model_after_kills(
    federation: LocalFederation, features: Sequence[str], *, server: bool = True, party: bool = True
) -> NDArray[np.float64]:
    """The model of a run; with `server` its server, with `party` one client is killed after round 3 and restarted."""
    next(event for event in federation.events() if event["event"] == "round" and event["round"] == 3)
    if server:
        kill_server(federation)
    if party:
        kill_client(federation, "p2")
    if server:
        federation.start_server()
    if party:
        federation.start_client("p2")
    ended = [event for event in federation.events() if event["event"] == "ended"]
    federation.wait()
    assert [event["status"] for event in ended] in (["completed"], ["exhausted"])
    return federation.model(features)
