"""What the documents name is there: files, types, linked pages; and the glossary is in order and complete."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("common", "server", "client", "deploy")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))
OF_THE_CODE = ("CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/glossary.md")
"""The documents whose names in `code` are of files and types of this project."""
OTHERS = {"Makefile"}
"""Names that look like those of types."""
CONTRACTS = (
    "server/fenchel_server/contract.py",
    "client/fenchel_client/algorithms/base.py",
    "common/fenchel_common/algorithms/family.py",
    "common/fenchel_common/layout.py",
    "common/fenchel_common/blocks.py",
    "common/fenchel_common/setup.py",
)
"""The modules in which the parts of the system meet; the glossary has the nouns in the names of their classes."""
VERBS = {"carried", "diverge", "knows", "made", "may", "spent", "take", "wrapped"}
"""The words in the names of their classes that are no nouns."""

LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
PATH = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|proto|md)|[\w./-]+/)`")
TYPE = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def prose(document: Path) -> str:
    return CODE_BLOCK.sub("", document.read_text())


def new_files(text: str) -> set[str]:
    """The files that a walk-through makes."""
    return set(re.findall(r"New file `([^`]+)`", text))


def is_there(path: str) -> bool:
    return any((base / path).exists() for base in (ROOT, *(ROOT / package for package in PACKAGES))) or any(
        folder.exists() for package in PACKAGES for folder in (ROOT / package).glob(f"fenchel_*/{path}")
    )


def types() -> Iterator[str]:
    """The names of all classes, of other types that modules make by assignment, and of the messages in `proto/`."""
    for source in (ROOT / "proto").rglob("*.proto"):
        yield from re.findall(r"^message (\w+)", source.read_text(), re.MULTILINE)
    for package in PACKAGES:
        for source in (ROOT / package).rglob("*.py"):
            tree = ast.parse(source.read_text())
            yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
            yield from (ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = [target for target, _ in LINK.findall(prose(document)) if target]
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("name", OF_THE_CODE)
def test_every_file_and_type_that_is_named_is_there(name: str) -> None:
    text = prose(ROOT / name)
    named = set(PATH.findall(text)) - new_files(text)
    assert sorted(path for path in named if not is_there(path)) == []
    assert sorted(set(TYPE.findall(text)) - set(types()) - OTHERS) == []


def test_the_search_finds_what_is_not_there() -> None:
    assert PATH.findall("in `fenchel_server/gone.py`") == ["fenchel_server/gone.py"]
    assert not is_there("fenchel_server/gone.py")
    assert is_there("rounds/machine.py")
    assert TYPE.findall("a `GoneAway` of `sealed`") == ["GoneAway"]


def glossary() -> list[tuple[str, str]]:
    """The words of the glossary with their meanings, in its order."""
    rows = [line.split(" | ") for line in (ROOT / "docs/glossary.md").read_text().splitlines() if line.startswith("| ")]
    return [(word.removeprefix("| "), meaning.removesuffix(" |")) for word, meaning in rows[1:]]


def test_the_glossary_has_every_word_once_in_alphabetical_order_with_one_sentence() -> None:
    words = [word.lower() for word, _ in glossary()]
    assert len(set(words)) == len(words)
    assert words == sorted(words)
    assert [word for word, meaning in glossary() if not meaning.endswith(".") or ". " in meaning] == []


@pytest.mark.parametrize("module", CONTRACTS)
def test_the_glossary_has_the_nouns_in_the_names_of_public_classes(module: str) -> None:
    classes = [node.name for node in ast.parse((ROOT / module).read_text()).body if isinstance(node, ast.ClassDef)]
    nouns = {noun.lower() for name in classes if name[0] != "_" for noun in re.findall("[A-Z][a-z]+", name)} - VERBS
    known = {word for entry, _ in glossary() for word in re.findall("[a-z]+", entry.lower())}
    assert sorted(noun for noun in nouns if noun not in known and noun.removesuffix("s") not in known) == []
