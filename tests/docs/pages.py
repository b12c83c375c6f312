"""The blocks of code of a page, and how they are run: in order, each language in its own way."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.cli import main

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(?P<language>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code."""

    language: str
    file: str | None
    """Where it is to be kept, for a module that a later block imports."""
    text: str

    def run(self, names: dict[str, Any]) -> None:
        """Run a block: Python among the names that earlier ones left, commands one by one, each of which must work."""
        if self.file is not None:
            Path(self.file).write_text(self.text, encoding="utf-8")
        elif self.language == "python":
            exec(compile(self.text, "page", "exec"), names)
        elif self.language == "sh":
            for line in self.text.splitlines():
                command, *arguments = shlex.split(line)
                assert command == "rearview"
                assert main(arguments) == 0, line


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page from top to bottom; `page` is relative to docs/."""
    for match in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        yield Block(match["language"], match["file"], match["text"])
