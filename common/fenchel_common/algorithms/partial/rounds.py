"""What a round is for, as it follows from the settings: the same at the server and at every party."""

from collections.abc import Sequence

from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.algorithms.participation import due_active, measures_alone
from fenchel_common.algorithms.settings import is_due
from fenchel_common.ids import ClientId, RoundId


def due_clients(
    settings: PartialSettings, clients: Sequence[ClientId], round_id: RoundId, *, closing: bool
) -> frozenset[ClientId]:
    """The clients that shall take part in a round, whether or not they are available; `clients` in roster order."""
    if closing or measures_alone(settings, round_id):
        return frozenset(clients)
    return due_active(settings, clients, round_id)


def trains(settings: PartialSettings, round_id: RoundId, *, closing: bool) -> bool:
    """Whether a round makes a pair of points: not the last one, nor one with more clients than the rule draws."""
    return not closing and (settings.trains_everybody or not measures_alone(settings, round_id))


def may_measure(settings: PartialSettings, round_id: RoundId, *, closing: bool) -> bool:
    """Whether a certificate is due in a round; it is measured if all clients take part."""
    return closing or is_due(round_id, settings.certificate_every)
