"""`fenchel bench models`: real tables with categories, over real processes, beside scikit-learn's pipeline."""

import json
import os

import pytest

from fenchel_deploy.cli.exits import ExitCode
from support.commands import run_fenchel


def test_a_federation_over_real_tables_ranks_new_rows_as_the_pooled_pipeline_does() -> None:
    folder = os.environ.get("FENCHEL_DATA")
    if folder is None:
        pytest.skip("FENCHEL_DATA does not name the folder with credit_default.npz")
    result = run_fenchel("bench", "models", "--data", folder, "--rows", "2000", "--lambda", "0.01", "--format", "json")
    assert result.exit_code == ExitCode.DONE, result.stderr
    report = json.loads(result.stdout)
    assert abs(report["difference"]) <= 0.005
    assert report["gap"] <= 1e-3
    assert (report["rows"], report["columns"]) == (1600, 23)
    assert set(report["peak_memory_mib"]) == {"north", "south", "registry"}
