"""The events that a server announces, made from its records; a mapping of each can be written as a line of JSON.

`listening`, `waiting`, `phase`, `warning` and `leaving` are made where they happen, in `app`.
"""

from collections.abc import Iterable, Mapping

from fenchel_common.ids import RoundId, RunId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.runconfig import RunConfig
from fenchel_server.rounds.ledger import TOTAL, costs_of
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store import PartyRecord, RoundRecord, RunRecord

Event = Mapping[str, object]


def begins_event(record: RunRecord, last_round: RoundId | None) -> Event:
    """A server begins or continues to work on a run. Its key is known if an earlier server has ended its set-up."""
    config = RunConfig.from_json(record.config)
    settings = config.algorithm_settings()
    return {
        "event": "begins",
        "run": record.run,
        "name": record.name,
        "round": last_round or 0,
        "algorithm": config.algorithm,
        "privacy": config.privacy,
        "cipher": config.cipher_in_use,
        "key_bits": record.key_bits,
        "key_fingerprint": record.key_fingerprint,
        "gap_target": config.stop.gap if settings.profile.certified else None,
        "rounds_limit": settings.stop.rounds,
    }


def ready_event(record: RunRecord) -> Event:
    """The set-up of a run is over, so its key is known."""
    return {
        "event": "ready",
        "run": record.run,
        "cipher": RunConfig.from_json(record.config).cipher_in_use,
        "key_bits": record.key_bits,
        "key_fingerprint": record.key_fingerprint,
    }


def parties_event(parties: Iterable[PartyRecord]) -> Event:
    """What each party does now."""
    return {
        "event": "parties",
        "parties": [
            {
                "party": one.party,
                "connected": one.connected,
                "since": one.since,
                "reason": one.reason,
                "owes": None if one.phase is None else {"run": one.run, "round": one.round_id, "phase": one.phase},
            }
            for one in parties
        ],
    }


def round_event(run: RunId, committed: RoundRecord, *, gap_target: float | None) -> Event:
    """A round is committed."""
    metrics = RoundMetrics.from_json(committed.metrics)
    return {
        "event": "round",
        "run": run,
        "round": metrics.round,
        "closing": metrics.closing,
        "leg": metrics.leg,
        "primal": metrics.primal,
        "dual": metrics.dual,
        "gap": metrics.gap,
        "gap_target": gap_target,
        "accuracy": metrics.accuracy,
        "figures": dict(metrics.figures),
        "seconds": committed.seconds[TOTAL],
        "costs": costs_of(committed),
        "absences": dict(metrics.absences),
    }


def ended_event(record: RunRecord) -> Event:
    """A run has ended, with its outcome."""
    config = RunConfig.from_json(record.config)
    return {
        "event": "ended",
        "run": record.run,
        "name": record.name,
        "status": str(record.status),
        "reason": record.reason,
        "privacy": config.privacy,
        "cipher": config.cipher_in_use,
        "key_bits": record.key_bits,
        "key_fingerprint": record.key_fingerprint,
        "outcome": None if record.outcome is None else RunOutcome.from_json(record.outcome).to_mapping(),
    }
