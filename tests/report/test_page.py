"""The page as a file: whole, self-contained, escaped, the same each time."""

import base64
import hashlib
import json
import os
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rearview.core.errors import InputError
from rearview.report.common.page import render, write
from rearview.report.forecast.page import ForecastSummary


class Page(HTMLParser):
    """What a browser sees: tags with attributes, text outside scripts, and the scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._raw: str | None = None
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._raw = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._raw = None

    def handle_data(self, data: str) -> None:
        if self._raw == "script":
            self.scripts[-1] += data
        elif self._raw is None:
            self.text += data


@pytest.fixture(scope="module")
def plain(seven: ForecastSummary) -> str:
    return render(seven)


@pytest.fixture(scope="module")
def strange(odd: ForecastSummary) -> str:
    return render(odd)


def test_nothing_is_fetched_from_elsewhere(plain: str):
    addresses = [
        attributes[name] or ""
        for _, attributes in Page(plain).tags
        for name in ("src", "href", "srcset", "action", "data", "poster")
        if name in attributes
    ]
    assert len(addresses) == 2
    assert all(address.startswith(("#", "data:")) for address in addresses)
    style = plain.split("<style>")[1].split("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style


def test_the_policy_lets_in_the_pages_own_scripts_alone(plain: str):
    page = Page(plain)
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert policy.split("script-src")[1].split(";")[0].count("sha256-") == 2
    for script in page.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_there_are_no_inline_handlers(plain: str, strange: str):
    for page in (Page(plain), Page(strange)):
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_names_from_the_data_add_no_tags(plain: str, strange: str):
    ordinary, odd = ({tag for tag, _ in Page(page).tags} for page in (plain, strange))
    assert odd <= ordinary
    assert len(Page(strange).scripts) == 3


def test_text_from_the_data_is_shown_as_it_is(odd: ForecastSummary, strange: str):
    text = Page(strange).text
    shown = [odd.title, odd.verdict, odd.command, odd.device, odd.data.facts[0][1], odd.findings[0].what]
    shown += [odd.findings[0].message, "<Model>", "<name>", "<value>", "<reason>"]
    assert [piece for piece in shown if piece not in text] == []


def test_the_data_parses_back(odd: ForecastSummary, strange: str):
    data = json.loads(Page(strange).scripts[0])
    assert [each["id"] for each in data["series"]] == [view.id for view in odd.series]
    assert data["time"] == {"integer": True, "name": "t <i>", "step": "1"}


def test_every_control_has_a_label_and_every_table_a_caption(plain: str):
    page = Page(plain)
    labelled = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
    controls = [a for tag, a in page.tags if tag in ("input", "select") and a.get("type") != "checkbox"]
    assert {control["id"] for control in controls} == {"series", "model", "window", "measure", "look", "board-find"}
    assert {control["id"] for control in controls} <= labelled
    assert plain.count("<caption>") >= 1
    assert dict(page.tags)["html"] == {"lang": "en"}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_same_summary_gives_the_same_page(seven: ForecastSummary, plain: str):
    assert render(seven) == plain


def test_the_page_is_little_more_than_the_plotting_library(plain: str, strange: str):
    for page in (Page(plain), Page(strange)):
        assert len(page.scripts[0]) + len(page.scripts[2]) < 600_000


def test_empty_sections_are_hidden(seven: ForecastSummary):
    bare = replace(
        seven,
        series=tuple(replace(view, backtest=()) for view in seven.series),
        scores=(),
        error_by_step={},
        curves={},
        findings=(),
        settings={},
        notes=(),
    )
    tags = Page(render(bare)).tags
    hidden = {attributes.get("id") for tag, attributes in tags if tag == "section" and "hidden" in attributes}
    assert hidden == {"parts", "backtest", "board", "leaderboard", "uses", "steps", "training", "looks", "settings"}
    assert "notes" not in {attributes.get("id") for _, attributes in tags}


def test_write_makes_folders_and_replaces_what_was_there(seven: ForecastSummary, plain: str, tmp_path: Path):
    path = tmp_path / "out" / "report.html"
    assert write(path, seven) == path
    path.write_text(plain.replace("</main>", ""))
    write(path, seven)
    assert path.read_text(encoding="utf-8") == plain
    assert os.listdir(path.parent) == ["report.html"]


def test_a_file_that_is_no_page_is_not_written_over(seven: ForecastSummary, tmp_path: Path):
    path = tmp_path / "sales.csv"
    path.write_text("date,y\n")
    with pytest.raises(InputError, match=r"sales\.csv is no page of rearview and is not written over"):
        write(path, seven)
    assert path.read_text() == "date,y\n"


def test_a_failed_write_leaves_the_old_page(seven: ForecastSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, old = tmp_path / "report.html", '<meta name="generator" content="rearview 0.1.0">'
    path.write_text(old)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write(path, seven)
    assert path.read_text() == old
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_name_that_is_no_unicode_text_is_written(seven: ForecastSummary, tmp_path: Path):
    view = replace(seven.series[0], id="lone \ud83d surrogate")
    path = write(tmp_path / "report.html", replace(seven, series=(view,), title="lone \ud83d surrogate"))
    page = Page(path.read_text(encoding="utf-8"))
    assert json.loads(page.scripts[0])["series"][0]["id"] == "lone \ud83d surrogate"
