"""The phase loop is in one module; the round driver, which has effects, steps through its machine instead."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def loops_over_phases(source: str) -> bool:
    """Whether a loop in the source hands results to a server half."""
    return any(
        isinstance(inner, ast.Attribute) and inner.attr == "advance"
        for loop in ast.walk(ast.parse(source))
        if isinstance(loop, ast.While | ast.For)
        for inner in ast.walk(loop)
    )


def test_the_phase_loop_stands_in_one_place() -> None:
    sources = (
        path for folder in ("common", "server", "client", "deploy", "tests") for path in (ROOT / folder).rglob("*.py")
    )
    found = [str(path.relative_to(ROOT)) for path in sources if loops_over_phases(path.read_text())]
    assert found == ["deploy/fenchel_deploy/inprocess/phases.py"]
