"""HyFDCA's client half for the run's kind of local step."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from fenchel_client.algorithms.corrective.client import CorrectiveClient
from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher


def hyfdca_client(
    settings: HyfdcaSettings,
    *,
    layout: ClientLayout,
    table: PartyTable,
    cipher: Cipher,
    key: RunKey,
    serialising: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> HyfdcaClient | CorrectiveClient:
    """The half that `local` asks for."""
    half = CorrectiveClient if settings.local == "corrective" else HyfdcaClient
    return half(settings, layout=layout, table=table, cipher=cipher, key=key, serialising=serialising)
