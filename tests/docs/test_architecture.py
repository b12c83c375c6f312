"""The page on the architecture names folders, modules and functions that are there, and leaves out no stage."""

import ast
import re
from pathlib import Path

import pytest
from pages import DOCS

SOURCE = Path(__file__).parents[2] / "src" / "rearview"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
FOLDERS = re.findall(r"^\| `([a-z_/]+)/` \|", PAGE, re.MULTILINE)
CALLS = re.findall(r"^ {4,}([a-z_/]+\.py) +((?:[A-Za-z_.]+(?:, )?)+)(?: {2,}|$)", PAGE, re.MULTILINE)


def test_every_folder_of_the_table_is_there() -> None:
    assert len(FOLDERS) > 20
    assert [folder for folder in FOLDERS if not (SOURCE / folder / "__init__.py").is_file()] == []


def test_every_stage_has_a_line() -> None:
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} <= set(FOLDERS)


@pytest.mark.parametrize(("module", "names"), CALLS, ids=[module for module, _ in CALLS])
def test_a_step_of_a_walk_is_in_its_module(module: str, names: str) -> None:
    tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    steps = {part for name in names.split(", ") if name and name[0] != "." for part in name.split(".") if part}
    assert steps - {"Linear", "or Linear"} <= defined


def test_the_walks_have_their_steps() -> None:
    assert len(CALLS) > 25
