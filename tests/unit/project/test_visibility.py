"""A field of the wire contract that does not say what it shows fails the build."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources_with(folder: Path, message: str) -> Path:
    """A copy of the contract with one message more."""
    shutil.copytree(ROOT / "proto" / "fenchel", folder / "fenchel")
    (folder / "fenchel" / "v1" / "more.proto").write_text(
        'syntax = "proto3";\npackage fenchel.v1;\nimport "fenchel/v1/visibility.proto";\n' + message
    )
    return folder


def test_every_field_of_the_contract_says_what_it_shows(generator: ModuleType) -> None:
    assert generator.undeclared_fields(ROOT / "proto") == []


@pytest.mark.parametrize(
    ("field", "lack"),
    [
        ("double loss = 1;", "has no visibility"),
        ("double loss = 1 [(visibility) = VISIBILITY_UNSPECIFIED];", "has no visibility"),
        ("double loss = 1 [deprecated = true];", "has no visibility"),
        ("double loss = 1 [(visibility) = VISIBILITY_INDIVIDUAL];", "does not say in words"),
    ],
)
def test_a_field_that_says_nothing_is_named(generator: ModuleType, tmp_path: Path, field: str, lack: str) -> None:
    sources = sources_with(tmp_path, f"message More {{ message Inner {{ {field} }} }}\n")
    (problem,) = generator.undeclared_fields(sources)
    assert problem.startswith("fenchel.v1.More.Inner.loss: ")
    assert lack in problem


@pytest.mark.parametrize("arguments", [[], ["--check"]])
def test_neither_generating_nor_checking_goes_on_with_such_a_field(
    generator: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.setattr(generator, "SOURCES", sources_with(tmp_path, "message More { double loss = 1; }\n"))
    monkeypatch.setattr(generator, "generate", lambda _: pytest.fail("wrote code of a contract that is incomplete"))
    monkeypatch.setattr("sys.argv", ["generate.py", *arguments])
    assert generator.main() == 1
    assert "fenchel.v1.More.loss: has no visibility" in capsys.readouterr().err
