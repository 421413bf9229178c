"""The records of a run's set-up: all parties have answered to their layouts, and the seed is known."""

from collections.abc import Collection, Mapping
from functools import partial

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.records import Given, Moment, Record, seed_to_bytes
from fenchel_common.wire.records import record_to_bytes, round_result_from_bytes
from fenchel_server.rejection import read_or_reject

GivenByAll = Mapping[ClientId, Given]


def opened_results(results: Mapping[ClientId, bytes]) -> tuple[dict[ClientId, bytes], GivenByAll]:
    """The results without their envelopes, and what the record says of each; raises `ResultRejected`."""
    opened = {
        client: read_or_reject(client, partial(round_result_from_bytes, party=client), data)
        for client, data in results.items()
    }
    return {client: body for client, (body, _) in opened.items()}, {
        client: given for client, (_, given) in opened.items()
    }


def agreed_seed(derived: Collection[int | None], *, configured: int | None) -> int:
    """The seed of the run: the one that the terms name, or the one that all parties derived from their secret."""
    due = {configured} if configured is not None else set(derived) - {None}
    told = {None} if configured is not None else due
    (seed,) = due if len(due) == 1 else {None}
    if seed is None or set(derived) != told:
        raise InvalidInput("seed: parties derived different seeds, or one that the terms do not ask for")
    return seed


def setup_record(
    given: GivenByAll, phase: str, *, attempt: int, layout: FederationLayout, seed: int | None = None
) -> bytes:
    """The record of a phase to which all parties contributed; that of the phase `layout` has the seed."""
    moment = Moment(attempt, RoundId(0), phase)
    in_order = tuple(given[client] for client in layout.clients)
    choices = b"" if seed is None else seed_to_bytes(seed)
    return record_to_bytes(Record(moment, in_order, choices), layout.clients)
