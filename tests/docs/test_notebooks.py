"""Every notebook runs from its first cell to its last, in seconds, and says what it promises."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS

BOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def code(book: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    cells = json.loads(book.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(book: Path) -> tuple[list[Any], dict[str, Any]]:
    """What each cell shows, and the names that the notebook leaves: the value of a cell's last line is shown."""
    names: dict[str, Any] = {}
    shown = []
    for number, text in enumerate(code(book), start=1):
        *body, last = ast.parse(text).body
        where = f"{book.stem}, cell {number}"
        exec(compile(ast.Module([*body, *([] if isinstance(last, ast.Expr) else [last])], []), where, "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), where, "eval"), names))
    return shown, names


def test_each_task_has_a_notebook() -> None:
    assert [book.stem for book in BOOKS] == ["classify", "detect", "forecast"]


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_notebook_is_kept_without_outputs(book: Path) -> None:
    whole = json.loads(book.read_text(encoding="utf-8"))
    assert whole["nbformat"] == 4
    assert whole["cells"][0]["cell_type"] == "markdown"
    for cell in whole["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert all(isinstance(ast.parse(text).body[-1], ast.Expr) for text in code(book))


@pytest.mark.slow
def test_the_notebook_of_a_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown, names = run(DOCS / "notebooks" / "forecast.ipynb")
    assert {"date", "north", "north-lo-80", "south-hi-95"} <= {*names["future"].columns}
    assert names["future"].height == 14
    assert shown[-1][0] == 14
    board = names["forecaster"].leaderboard()
    assert board["mase"].min() < 1


@pytest.mark.slow
def test_the_notebook_of_a_detection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown, names = run(DOCS / "notebooks" / "detect.ipynb")
    assert shown[-2] == 1  # the one anomaly is found
    assert shown[-1] == names["segments"].height
    assert any("load" in channels for channels in names["segments"]["channels"])


@pytest.mark.slow
def test_the_notebook_of_a_classification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown, names = run(DOCS / "notebooks" / "classify.ipynb")
    assert names["confusion"].accuracy > 0.8
    assert shown[-1] == names["confusion"].accuracy
