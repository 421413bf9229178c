"""Tables with very many sparse columns: a run over real processes, and what the server keeps of the columns."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from fenchel_common.ids import ClientId
from fenchel_server.cohorts import OverlapRule, lay_out
from fenchel_server.holdings import Holding

FENCHEL = str(Path(sys.executable).parent / "fenchel")
ROWS, COLUMNS, ENTRIES = 300, 20_000, 40


def save_wide_table(path: Path) -> None:
    """Words of texts: rows of length 1 with few entries, mostly in columns that hardly another row has."""
    rng = np.random.default_rng(3)
    columns = np.minimum(rng.zipf(1.3, (ROWS, ENTRIES)), COLUMNS) - 1
    data = np.full(ROWS * ENTRIES, 1.0 / np.sqrt(ENTRIES))
    X = csr_array((data, (np.repeat(np.arange(ROWS), ENTRIES), columns.reshape(-1))), shape=(ROWS, COLUMNS))
    y = np.where(X @ rng.standard_normal(COLUMNS) > 0.0, 1, -1)
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=np.array(X.shape), y=y)


def test_a_run_with_masks_over_twenty_thousand_columns_reaches_its_gap(tmp_path: Path) -> None:
    save_wide_table(tmp_path / "wide.npz")
    command = [FENCHEL, "bench", "run", "--dataset", str(tmp_path / "wide.npz"), "--grid", "2x2", "--ciphers", "masks"]
    command += ["--lambda", "1e-2", "--gap", "1e-2", "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads(ended.stdout)
    assert 0.0 <= row["gap"] <= 1e-2
    assert row["setup_seconds"] > 0.0
    assert set(row["peak_memory_mib"]) == {"server", *(f"hospital-{number}" for number in range(1, 5))}
    # Without any feature, a process takes 100 to 130 MiB.
    assert max(row["peak_memory_mib"].values()) < 220.0


def test_the_server_keeps_no_object_for_each_feature_of_each_party() -> None:
    features = np.array([f"{number:032x}" for number in range(60_000)], dtype=np.bytes_)
    held = [
        Holding(ClientId(f"party-{number}"), (number.to_bytes(32, "big"), b"%032d" % (number // 3)), own, True)
        for number, own in enumerate(np.tile(features.reshape(3, -1), (3, 1)))
    ]
    tracemalloc.start()
    try:
        aligned = lay_out(held, slots=30, feature_slots=30, seed=0, overlap=OverlapRule.ERROR)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(aligned.federation.features) == 60_000
    assert kept < 300 * 60_000
