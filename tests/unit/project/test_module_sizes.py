"""No hand-written module is longer than 350 lines or imports from more than 20 modules of ours."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {
    "fenchel_common": "common",
    "fenchel_server": "server",
    "fenchel_client": "client",
    "fenchel_deploy": "deploy",
}
GENERATED = "common/fenchel/"
MAX_LINES = 350
MAX_IMPORTS = 20


def modules(root: Path, *folders: str) -> Iterator[Path]:
    """The hand-written modules below the folders of the tree."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(GENERATED):
                yield path


def is_module(root: Path, name: str) -> bool:
    """Whether a dotted name is a module or package of ours."""
    package = name.partition(".")[0]
    if package not in PACKAGES:
        return False
    path = root / PACKAGES[package] / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def imported(root: Path, source: str) -> set[str]:
    """The modules of ours that the source imports; `from package import module` counts the module."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if is_module(root, alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and is_module(root, node.module):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if is_module(root, name) else node.module for name in names}
    return found


def too_long(root: Path) -> dict[str, int]:
    """Lines of the modules that have too many."""
    lines = {
        path.relative_to(root).as_posix(): len(path.read_text().splitlines())
        for path in modules(root, *PACKAGES.values(), "proto", "tests")
    }
    return {name: count for name, count in lines.items() if count > MAX_LINES}


def too_entangled(root: Path) -> dict[str, int]:
    """How many modules of ours are imported by the modules that import too many."""
    imports = {
        path.relative_to(root).as_posix(): len(imported(root, path.read_text()))
        for path in modules(root, *PACKAGES.values())
    }
    return {name: count for name, count in imports.items() if count > MAX_IMPORTS}


def test_no_module_is_too_long() -> None:
    assert too_long(ROOT) == {}


def test_no_module_imports_from_too_many_others() -> None:
    assert too_entangled(ROOT) == {}


def planted(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_module_that_is_too_long_would_be_found(tmp_path: Path) -> None:
    line = "pass\n"
    planted(tmp_path, "server/fenchel_server/fits.py", line * MAX_LINES)
    planted(tmp_path, "common/fenchel/v1/generated_pb2.py", line * (MAX_LINES + 1))
    for path in ("server/fenchel_server/breach.py", "proto/generate.py", "tests/unit/test_breach.py"):
        planted(tmp_path, path, line * (MAX_LINES + 1))
    assert too_long(tmp_path) == {
        "server/fenchel_server/breach.py": MAX_LINES + 1,
        "proto/generate.py": MAX_LINES + 1,
        "tests/unit/test_breach.py": MAX_LINES + 1,
    }


def test_a_module_that_imports_from_too_many_others_would_be_found(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(MAX_IMPORTS + 1)]
    for name in names:
        planted(tmp_path, f"common/fenchel_common/wire/{name}.py", "VALUE = 1\n")
    listed = f"from fenchel_common.wire import {', '.join(names)}\n"
    by_name = "".join(f"from fenchel_common.wire.{name} import VALUE\n" for name in names)
    inside = "def late() -> None:\n" + "".join(f"    import fenchel_common.wire.{name}\n" for name in names)
    fitting = "import numpy\n" + 2 * by_name.replace(f"from fenchel_common.wire.{names[-1]} import VALUE\n", "")
    for path, text in (("listed", listed), ("by_name", by_name), ("inside", inside), ("fitting", fitting)):
        planted(tmp_path, f"client/fenchel_client/{path}.py", text)
    planted(tmp_path, "tests/test_many.py", by_name)
    assert too_entangled(tmp_path) == {
        f"client/fenchel_client/{path}.py": MAX_IMPORTS + 1 for path in ("by_name", "inside", "listed")
    }
