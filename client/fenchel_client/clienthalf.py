"""Makes the client half of a run's algorithm."""

from collections.abc import Callable

from fenchel_client.algorithms import ALGORITHMS
from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.runconfig import RunConfig


def client_half(
    config: RunConfig,
    settings: AlgorithmSettings,
    *,
    layout: ClientLayout,
    table: PartyTable,
    cipher: Cipher,
    key: RunKey,
    stopwatch: Stopwatch,
) -> Callable[[Seal], AlgorithmClient]:
    """A function from the seal of the run to the half, which works on the rows of `table`."""
    return lambda seal: ALGORITHMS[settings.family.name][config.algorithm](
        settings,
        layout=layout,
        table=table,
        cipher=cipher,
        key=key,
        seal=seal,
        serialising=stopwatch.serialising,
    )
