"""Every block of code in the README, the guide and the page on plug-ins does what the page says."""

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pages import DOCS, blocks

from rearview import attention, models, train
from rearview.tasks import statistical_models


@pytest.fixture
def _in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short epoch and two statistical members, whatever is asked for: that something comes out is looked at."""
    whole = train.fit

    def fit(
        model: Any, task: Any, source: Any, learned: Any, held: Any, settings: train.Settings, **others: Any
    ) -> Any:
        short = replace(settings, epochs=1, windows_per_epoch=32, updates_per_epoch=None)
        return whole(model, task, source, learned, held, short, **others)

    monkeypatch.setattr(train, "fit", fit)
    monkeypatch.setattr(statistical_models, "NAMES", ("seasonal_naive", "theta"))


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page on plug-ins leaves, its parts on the shelves; all of it is gone after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for shelf in (attention._SHELF, models._SHELF):
        monkeypatch.setattr(shelf, "_added", {})
    for name in ("fading", "averages", "patches"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    names: dict[str, Any] = {}
    for block in blocks("plugin.md"):
        block.run(names)
    return names


@pytest.mark.slow
@pytest.mark.usefixtures("_in_short", "unchecked", "samples", "glance_weights")
def test_the_guide_runs_from_top_to_bottom() -> None:
    names: dict[str, Any] = {}
    run = Counter[str]()
    for block in blocks("guide.md"):
        block.run(names)
        run[block.language] += 1
    assert run == {"python": 16, "sh": 13}
    assert {"date", "north", "north-lo-80", "south-hi-95"} <= {*names["future"].columns}
    assert {"cutoff", "north-y"} <= {*names["backtest"].columns}
    assert {"unique_id", "ds", "itransformer"} <= {*names["informed"].predict(future=names["promotions"]).columns}
    assert list(names["flags"].columns) == ["time", "score", "threshold", "anomaly"]
    torch.testing.assert_close(names["exported"].module()(names["past"]), names["network"](names["past"]))


@pytest.mark.slow
@pytest.mark.usefixtures("_in_short", "unchecked", "samples")
def test_the_readme_runs_from_top_to_bottom() -> None:
    names: dict[str, Any] = {}
    for block in blocks("../README.md"):
        block.run(names)
    assert {"date", "north", "north-lo-80", "south-hi-95"} <= {*names["future"].columns}
    assert names["w"].shape == (2, 7, 16, 42, 42)
    assert names["yhat"].shape == (2, 7, 96)


@pytest.mark.slow
@pytest.mark.usefixtures("_in_short", "unchecked", "samples")
def test_the_page_on_glance_runs_from_top_to_bottom() -> None:
    names: dict[str, Any] = {}
    for block in blocks("glance.md"):
        block.run(names)
    assert {"date", "north", "north-lo-80", "south-hi-95"} <= {*names["future"].columns}
    assert len(names["tuned"].predict()) == 28


def test_the_plug_ins_of_the_page_work(plugged: dict[str, Any]) -> None:
    assert plugged["weights"].shape == (2, 7, 4, 12, 12)
    assert plugged["forecast"].shape == (2, 7, 24)
    assert attention.summary("fading").startswith("Softmax attention that fades")
    assert {"averages", "patches"} <= {*models.names()}
    assert [part.shape for part in plugged["maps"]] == [(2, 7, 4, 6, 6)] * 2


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    pages = sorted(page.name for page in DOCS.glob("*.md"))
    assert len(pages) >= 6
    assert [page for page in pages if f"(docs/{page})" not in readme] == []


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
