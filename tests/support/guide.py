"""Blocks of code in a document, and the files into which the document says that they go."""

import re
from dataclasses import dataclass
from pathlib import Path

EDIT = re.compile(
    r"(?:New file `(?P<new>[^`]+)`"
    r"|In\s`(?P<changed>[^`]+)`, (?P<how>after|in place of) the line `(?P<line>[^`]+)`):"
    r"\n\n```(?:python|toml)\n(?P<text>.*?)```\n",
    re.DOTALL,
)
COMMANDS = re.compile(r"```sh\n(?P<lines>.*?)```\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document: the edits of source files in order, and the commands that follow them."""

    edits: tuple[re.Match[str], ...]
    commands: tuple[str, ...]


def section(text: str) -> Section:
    edits = tuple(EDIT.finditer(text))
    assert len(edits) == text.count("```python") + text.count("```toml"), "every block of code says where it goes"
    commands = tuple(line for block in COMMANDS.finditer(text) for line in block["lines"].splitlines())
    return Section(edits, commands)


def edited(source: str, edit: re.Match[str]) -> str:
    """The source with a block put after the one line that is named, or in its place."""
    lines = source.splitlines()
    (position,) = [number for number, line in enumerate(lines) if line.strip() == edit["line"]]
    first = position + 1 if edit["how"] == "after" else position
    lines[first : position + 1] = edit["text"].splitlines()
    return "\n".join(lines) + "\n"


def carry_out(edits: tuple[re.Match[str], ...], tree: Path) -> None:
    """Writes the new files below `tree`, and changes the others."""
    for edit in edits:
        if edit["new"] is not None:
            path = tree / edit["new"]
            assert not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(edit["text"])
        else:
            path = tree / edit["changed"]
            path.write_text(edited(path.read_text(), edit))
