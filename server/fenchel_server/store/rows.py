"""Rows of the SQLite store as records."""

import json

from fenchel_common.ids import RoundId, RunId
from fenchel_server.store.base import AbsenceRecord, Ending, RoundRecord, RunRecord, RunStatus

RUN_COLUMNS = "run, name, config, status, reason, created, updated, attempt, key_fingerprint, key_bits, outcome, seen"
ROUND_COLUMNS = "round_id, metrics, bytes_up, bytes_down, seconds, ending_status, ending_reason, clients, seen, server"


def run_record(
    row: tuple[str, str, str, str, str, float, float, int, str | None, int | None, str | None, str],
) -> RunRecord:
    """The record of a run, from a row of `RUN_COLUMNS`."""
    run, name, config, status = row[:4]
    return RunRecord(RunId(run), name, config, RunStatus(status), *row[4:])


def round_record(
    row: tuple[int, str, int, int, str, str | None, str | None, str, str, str], absences: list[AbsenceRecord]
) -> RoundRecord:
    """The record of a round, from a row of `ROUND_COLUMNS` and the absences of the round."""
    round_id, metrics, up, down, seconds, status, reason, clients, seen, server = row
    ending = None if status is None or reason is None else Ending(RunStatus(status), reason)
    return RoundRecord(
        round_id=RoundId(round_id),
        metrics=metrics,
        absences=tuple(absences),
        bytes_up=up,
        bytes_down=down,
        seconds=json.loads(seconds),
        ending=ending,
        clients=json.loads(clients),
        seen=seen,
        server=json.loads(server),
    )
