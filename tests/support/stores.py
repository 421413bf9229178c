"""A server's state folder with a made-up run of any length, written at once."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fenchel_common.ids import ClientId, RunId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.alignment import federation_layout_to_bytes
from fenchel_server.rounds.ledger import Kind
from fenchel_server.store import SqliteStore
from fenchel_server.store.statedir import DATABASE_NAME

GAP_TARGET = 1e-6
ABSENCE = "no result within 20 s"
STEP_S = 0.5
"""The length of a round."""


def made_up_run(
    directory: Path, *, rounds: int, grid: tuple[int, int], run: str = "run-1", name: str = "long", **config: object
) -> None:
    """A run under way, with parties in a grid: the gap is 1/t, and every 50th round one party is left out."""
    settings = RunConfig.from_mapping({"name": name, "stop": {"gap": GAP_TARGET, "rounds": 100_000}, **config})
    with SqliteStore.serve(directory, clock=lambda: 1_700_000_000.0) as store:
        store.create_run(RunId(run), name=name, config=settings.to_json())
        store.begin_attempt(RunId(run))
    names = party_names(grid)
    layout = federation_layout_to_bytes(grid_layout(grid))
    with sqlite3.connect(directory / DATABASE_NAME) as connection:
        connection.execute(
            "UPDATE runs SET key_bits = 2048, key_fingerprint = 'abcdef0123456789' WHERE run = ?", (run,)
        )
        connection.execute("INSERT INTO setups VALUES (?, ?, ?)", (run, b"n", layout))
        connection.executemany(
            "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?)", _rows(run, rounds, names)
        )
        connection.executemany(
            "INSERT INTO absences VALUES (?, ?, 0, ?, 'primal', ?)",
            [(run, round_id, absentee(round_id, names), ABSENCE) for round_id in range(50, rounds + 1, 50)],
        )
    connection.close()


def party_names(grid: tuple[int, int]) -> list[str]:
    return [f"hospital-{number}" for number in range(1, grid[0] * grid[1] + 1)]


def absentee(round_id: int, names: list[str]) -> str:
    return names[round_id // 50 % len(names)]


def grid_layout(grid: tuple[int, int], *, samples: int = 20, features: int = 4) -> FederationLayout:
    """Each row of the grid has `samples` samples, each column `features` features."""
    rows, columns = grid
    clients = [ClientId(name) for name in party_names(grid)]
    held = {client: number % columns for number, client in enumerate(clients)}
    return FederationLayout(
        clients=tuple(clients),
        sample_count=rows * samples,
        slots=30,
        feature_slots=30,
        blocks=tuple(Block(row, samples, tuple(clients[row * columns : (row + 1) * columns])) for row in range(rows)),
        features=tuple(f"f{number:04}" for number in range(columns * features)),
        client_features={client: np.arange(features) + column * features for client, column in held.items()},
        label_holders=frozenset(clients),
    )


def _rows(run: str, rounds: int, names: list[str]) -> Iterator[tuple[Any, ...]]:
    costs = json.dumps({name: _costs(place) for place, name in enumerate(names)})
    seen = json.dumps({name: _seen() for name in names})
    seconds = json.dumps({"total": STEP_S, **dict.fromkeys(Kind, STEP_S / len(Kind))})
    up, down = 500 * len(names), 400 * len(names)
    for round_id in range(rounds + 1):
        metrics = json.dumps(_metrics(round_id, names)) if round_id else "{}"
        yield (run, round_id, metrics, up, down, seconds, costs, seen, "{}")


def _metrics(round_id: int, names: list[str]) -> Mapping[str, object]:
    absent = {absentee(round_id, names): ABSENCE} if round_id % 50 == 0 else {}
    return {
        "round": round_id,
        "primal": 0.2 + 1 / round_id,
        "dual": 0.2,
        "gap": 1 / round_id,
        "gap_error": 1e-9,
        "accuracy": 1 - 0.4 / round_id,
        "participants": [name for name in names if name not in absent],
        "absences": absent,
        "phases": ["inner_product", "local_dual", "primal"],
        "closing": False,
    }


def _costs(place: int) -> Mapping[str, float]:
    spent = dict.fromkeys(("encrypt_s", "decrypt_s", "serialise_s", "compute_s"), 0.01)
    traffic = {"bytes_up": 500, "bytes_down": 400, "ciphertext_up": 300, "ciphertext_down": 200}
    return {
        **spent,
        "wire_s": 0.01 * (place + 1),
        "wait_s": 0.3,
        **traffic,
        "cpu_seconds": 0.02,
        "peak_memory_bytes": 2**27,
    }


def _seen() -> Mapping[str, object]:
    return {
        "up": {"CorrectiveDualResult.alpha": {"ciphertext individual": 300}, "PhaseRecord.phase": {"public": 4}},
        "down": {"CorrectivePrimalTask.point": {"ciphertext aggregate": 30}},
    }
