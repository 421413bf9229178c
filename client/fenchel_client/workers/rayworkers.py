"""Workers on a Ray cluster. A worker that is lost has its pieces done again by another one."""

import importlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from gmpy2 import mpz

from fenchel_client.crypto.keys import PrivateKey
from fenchel_client.workers.holders import Holder
from fenchel_client.workers.nodesecret import NodeSecret
from fenchel_client.workers.piecework import Piece, Work, do, seal_key
from fenchel_client.workers.rowholder import RowHolder
from fenchel_common.errors import FenchelError, InvalidInput, Refusal
from fenchel_common.identity import Address

HERE: Final = "ray"
MIN_BLOCKS: Final = 64
"""Vectors of fewer blocks are done by the client itself: the way to a worker would take longer."""
PIECES_BY_CORE: Final = 2
HOLDERS_BY_NODE: Final = 4
"""The most workers of a node that hold rows: before a run, each reads all files of the table."""
RETRIES: Final = 8
"""How often a piece is done again whose worker was lost."""
WORK_S: Final = 600.0
"""The most time for all pieces of a vector; after it the client does the work itself."""
TLS_VARIABLE: Final = "RAY_USE_TLS"
LOOPBACK: Final = ("127.0.0.1", "::1")

log = logging.getLogger(__name__)


class RayCluster:
    """A connection to a Ray cluster, of which this machine is a node; one a process, until the process ends.

    `address` is `ray`, for the cluster that runs on this machine, or HOST:PORT of the cluster's head. Raises
    `InvalidInput` if Ray is not installed, there is no cluster, this node has no secret, or a node is not
    on loopback and Ray's TLS is off.
    """

    def __init__(self, address: str) -> None:
        self._secret = NodeSecret.here()
        head = None if address == HERE else Address.parse(address)
        if head is not None:
            _check_tls(head.host)
        if head is not None and head.host in LOOPBACK:
            # Without this, Ray takes another address of the machine in place of a loopback address.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        ray = self._ray = _ray_itself()
        try:
            ray.init(
                address=str(head) if head else "auto",
                log_to_driver=False,
                logging_level=logging.WARNING,
                configure_logging=False,
                **({"_node_ip_address": head.host} if head and head.host in LOOPBACK else {}),
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            missing = f"there is no Ray cluster at {address}, or this machine is no node of it: {error}"
            raise InvalidInput(missing) from None
        nodes = [str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]]
        try:
            for node in nodes:
                _check_tls(node)
        except InvalidInput:
            ray.shutdown()
            raise
        self.cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._do = ray.remote(max_retries=RETRIES)(do)
        # Without cores of their own, because those are for pieces of ciphertext; Ray gives them one thread each.
        self._hold = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=RETRIES, scheduling_strategy="SPREAD")(
            RowHolder
        )
        self._nodes = len(nodes)
        log.info("Ray: %d nodes, %d cores", len(nodes), self.cores)

    def workers(self, key: PrivateKey) -> "RayWorkers":
        return RayWorkers(self._ray, self._do, self.cores, key, self._secret)

    def holders(self, most: int) -> list[Holder]:
        """Workers that hold rows, spread over the nodes; they end with this process."""
        count = min(most, self.cores, HOLDERS_BY_NODE * self._nodes)
        return [Holder(RayLink(self._ray, self._hold.remote()), self._secret) for _ in range(count)]


class RayLink:
    """The way to a worker that holds rows. Ray starts its process again if it is lost, without the rows."""

    def __init__(self, ray: Any, worker: Any) -> None:
        self._ray, self._worker = ray, worker

    def ask(self, question: bytes) -> Callable[[], bytes]:
        begun = self._worker.answer.remote(question)

        def answer() -> bytes:
            try:
                return bytes(self._ray.get(begun, timeout=WORK_S))
            except self._ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                why = str(cause) if isinstance(cause, FenchelError) else type(error).__name__
                raise Refusal(
                    f"the workers that hold this party's rows do not answer: {why}",
                    public_reason="it cannot reach its rows",
                ) from None

        return answer


class RayWorkers:
    """The workers of a run, which have its key, sealed under the node secret."""

    def __init__(self, ray: Any, remote: Any, cores: int, key: PrivateKey, secret: NodeSecret) -> None:
        self._ray = ray
        self._remote = remote
        self._cores = cores
        self._key = key
        self._secret = secret
        self._sealed_key = seal_key(key, secret)
        self._lost = False

    def encrypt(self, plaintexts: Sequence[mpz]) -> list[mpz] | None:
        return self._done(Work.ENCRYPT, plaintexts)

    def decrypt(self, ciphertexts: Sequence[mpz]) -> list[mpz] | None:
        return self._done(Work.DECRYPT, ciphertexts)

    def _done(self, work: Work, blocks: Sequence[mpz]) -> list[mpz] | None:
        if self._lost or len(blocks) < MIN_BLOCKS:
            return None
        step = -(-len(blocks) // (self._cores * PIECES_BY_CORE))
        pieces = [
            Piece.of(work, blocks[start : start + step], self._key, self._secret)
            for start in range(0, len(blocks), step)
        ]
        given: list[Any] = []
        try:
            given += [self._remote.remote(self._sealed_key, piece) for piece in pieces]
            results = self._ray.get(given, timeout=WORK_S)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            why = str(cause) if isinstance(cause, FenchelError) else type(error).__name__
            log.warning("Ray's workers failed, and from now on this process does their work: %s", why)
            self._lost = True
            return None
        return [
            block
            for piece, sealed in zip(pieces, results, strict=True)
            for block in piece.result(sealed, self._key, self._secret)
        ]


def _ray_itself() -> Any:
    # Ray would tell its makers of its use, over the network.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InvalidInput("Ray is not installed; install Fenchel with its extra, fenchel[ray]") from None


def _check_tls(node: str) -> None:
    # With any other address, also of loopback, a node's ports are open on all interfaces.
    if node not in LOOPBACK and os.environ.get(TLS_VARIABLE) != "1":
        raise InvalidInput(
            f"Ray's node {node} is not on loopback and Ray's TLS is off; set {TLS_VARIABLE}=1 and the certificates"
            " (RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY, RAY_TLS_CA_CERT) on every node and here"
        )
