"""Pages in a browser: those of a detection and of a study draw what is picked; none is too small for a finger."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detections import entity, summary
from opened_page import open_page
from small_classification import summary as classification
from test_synthetic_page import line
from test_synthetic_page import summary as study

from rearview.report.classify.page import ConfusedPair
from rearview.report.common.page import write
from rearview.report.detect.levels import BELOW, try_levels
from rearview.report.forecast.page import ForecastSummary
from rearview.report.results import study as synthetic_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"),
]


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, which the dev extra installs")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    yield driver
    driver.quit()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_segment_is_shown_when_its_row_is_pressed(driver: Any, tmp_path: Path, width: int) -> None:
    pumps = (entity("first", 300), entity("second", 400))
    page = write(tmp_path / "report.html", summary(*pumps))
    driver.set_window_size(width, 900)
    open_page(driver, page.as_uri())

    def run(script: str) -> Any:
        return driver.execute_script(f"return {script}")

    values = "document.getElementById('values-plot')"
    np.testing.assert_allclose(run(f"{values}.data[0].y"), pumps[0].values[:, 1], rtol=1e-4)
    peaks = run("document.getElementById('score-plot').data[2]")
    assert peaks["y"] == pytest.approx([pumps[0].score[part.peak] for part in pumps[0].segments], rel=1e-4)
    assert run(f"{values}.layout.shapes.length") == 2  # the segment, and the label
    assert run("document.documentElement.scrollWidth") <= width
    button = driver.find_element("css selector", "[data-entity='1']")
    driver.execute_script("arguments[0].click()", button)
    assert "anomaly 1 of 1" in driver.find_element("id", "anomalies-subject").text
    np.testing.assert_allclose(run(f"{values}.data[0].y"), pumps[1].values[:, 1], rtol=1e-4)
    shares = [item.text.split()[-2] for item in driver.find_elements("css selector", "#carriers-bars li")]
    assert shares == ["75", "25"]
    script = "const s = document.getElementById('channel'); s.value = '0'; s.dispatchEvent(new Event('change'))"
    driver.execute_script(script)
    np.testing.assert_allclose(run(f"{values}.data[0].y"), pumps[1].values[:, 0], rtol=1e-4)
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


EDGES = """['values', 'score'].map((name) => {
  const box = document.querySelector(`#${name}-plot .cartesianlayer .bg, #${name}-plot .bglayer .bg`)
    ?? document.querySelector(`#${name}-plot .nsewdrag`);
  const { left, right } = box.getBoundingClientRect();
  return [Math.round(left), Math.round(right)];
})"""
"""Where the plots of a channel and of the score begin and end."""


@pytest.mark.parametrize("width", [1280, 390])
def test_another_threshold_finds_more_or_less(driver: Any, tmp_path: Path, width: int) -> None:
    pump = entity("pump", 300)
    pump = replace(pump, values=pump.values + 1_234_567)  # long numbers beside the channel, short ones beside the score
    page = write(tmp_path / "report.html", summary(pump))
    driver.set_window_size(width, 900)
    open_page(driver, page.as_uri())
    plots, told = driver.execute_script(f"return {EDGES}"), driver.find_element("id", "threshold-subject")
    assert plots[0] == plots[1]
    assert "the threshold of the run: 1 alarm (0.08 a day), 4 rows above it; 1 of 1 marked found." in told.text
    levels = try_levels(pump)
    assert levels is not None

    def slide(place: int) -> None:
        script = "const s = document.getElementById('threshold'); s.value = arguments[0];"
        driver.execute_script(f"{script} s.dispatchEvent(new Event('input'))", str(place))

    for place in (0, BELOW - 3, len(levels.alarms) - 1):
        slide(place)
        assert f": {levels.alarms[place]:,} alarm" in told.text
        assert f", {levels.rows[place]:,} row" in told.text
        score = driver.execute_script("return document.getElementById('score-plot').data")
        assert score[1]["y"][0] == pytest.approx(levels.thresholds[place], rel=1e-4)
        assert len(score[2]["x"]) == levels.alarms[place]
    slide(BELOW)
    assert "the threshold of the run" in told.text
    driver.execute_script("document.getElementById('segment-next').click()")
    assert "carried by c1 (75 %)" in driver.find_element("id", "anomalies-subject").text
    assert driver.execute_script(f"return {EDGES}")[0] == driver.execute_script(f"return {EDGES}")[1]
    zoom = "Plotly.relayout('score-plot', {'xaxis.range': ['2024-01-03 00:00', '2024-01-04 00:00']})"
    driver.execute_script(zoom)
    shown = driver.execute_script("return document.getElementById('values-plot').layout.xaxis.range")
    assert shown == ["2024-01-03 00:00", "2024-01-04 00:00"]
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.parametrize("width", [1280, 390])
def test_confused_cases_are_drawn(driver: Any, tmp_path: Path, width: int) -> None:
    page = classification()
    wrong = [replace(one, truth=0.25) for one in page.examples if one.said != one.label]
    pairs = tuple(ConfusedPair(one.label, one.said, 3, (one,)) for one in wrong)
    driver.set_window_size(width, 900)
    open_page(driver, write(tmp_path / "report.html", replace(page, confused=pairs)).as_uri())
    drawn = driver.find_elements("css selector", "#confused-plots > div")
    assert [one.find_element("css selector", "h3").text for one in drawn] == [
        "up taken for down 3 times",
        "<b>odd</b> taken for up 3 times",
    ]
    assert drawn[0].find_element("css selector", "p").text == "line 5: down 50 %, up 25 %."
    lines = driver.execute_script("return document.getElementById('confused-0-plot').data.map((one) => one.y)")
    np.testing.assert_allclose(lines, wrong[0].values, rtol=1e-4, atol=1e-5)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_tap_shows_a_name_that_is_cut_short(driver: Any, tmp_path: Path) -> None:
    driver.set_window_size(390, 900)
    open_page(driver, write(tmp_path / "report.html", classification()).as_uri())
    tip = driver.find_element("css selector", ".tip")
    assert not tip.is_displayed()
    for kind in ("#confusion th[title]", "#classes abbr"):
        name = driver.find_element("css selector", kind)
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].click()", name)
        assert tip.is_displayed()
        assert tip.text == name.get_attribute("title")
    driver.execute_script("document.querySelector('h1').click()")
    assert not tip.is_displayed()


MEASURES = {
    "Point-adjusted F1 by chance": (0.25, "of as many flags thrown at random, at the threshold of the detector"),
    "VUS-PR": (0.5, "area under precision and recall, near misses within a window counted in part"),
}
SETTINGS = {"itransformer: training": {"windows_per_epoch": (128, "as asked"), "epochs": (2, "as asked")}}
LOW = """[...document.querySelectorAll('button, select, summary, label.check, input[type=text], [role=option]')]
  .filter((one) => one.offsetParent && one.getBoundingClientRect().height < 32)
  .map((one) => one.outerHTML)"""
LINES = """[...document.querySelector('.settings dt').childNodes].filter((part) => part.nodeType === Node.TEXT_NODE)
  .map((part) => { const range = new Range(); range.selectNode(part); return range.getClientRects().length; })"""
"""On how many lines each word of a setting's name stands."""
TOUCHED = """[...document.querySelectorAll('.plot .xtitle')].filter((title) => {
  const ticks = [...title.closest('.plot').querySelectorAll('.xtick text')];
  return title.getBoundingClientRect().top < Math.max(...ticks.map((tick) => tick.getBoundingClientRect().bottom)) + 2;
}).map((title) => title.textContent)"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["detection", "forecast", "classification"])
def test_what_is_pressed_is_large_enough_and_no_axis_title_touches_a_tick(
    driver: Any, tmp_path: Path, seven: ForecastSummary, kind: str, width: int
) -> None:
    if kind == "detection":
        page = write(tmp_path / "report.html", summary(entity("pump", 300), measures=MEASURES))
    elif kind == "forecast":
        page = write(tmp_path / "report.html", seven)
    else:
        page = write(tmp_path / "report.html", classification())
    driver.set_window_size(width, 900)
    open_page(driver, page.as_uri())
    assert driver.execute_script(f"return {LOW}") == []
    assert driver.execute_script("return document.querySelectorAll('.plot .xtitle').length") > 0
    assert driver.execute_script(f"return {TOUCHED}") == []


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_on_a_narrow_screen(driver: Any, tmp_path: Path, width: int) -> None:
    page = write(tmp_path / "report.html", summary(entity("pump", 300), measures=MEASURES, settings=SETTINGS))
    driver.set_window_size(width, 900)
    open_page(driver, page.as_uri())
    start = driver.find_element("css selector", "#segments th[scope='row']")
    assert start.text == "2024-01-07 06:00:00"
    assert driver.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", start)
    table = driver.find_element("css selector", "#measures .scroll")
    assert driver.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", table)
    assert driver.execute_script(f"return {LINES}") == [1, 1, 1]


def test_lines_of_a_study_are_distinguished_in_every_view(driver: Any, tmp_path: Path) -> None:
    """A name keeps its look in all views, and views of other names don't begin with dashes."""
    arms = [line(f"arm {number}", 1.0, 2.0) for number in range(6)]
    views = (
        synthetic_page.View("all", tuple(arms)),
        synthetic_page.View("some", (line("new", 3.0, 4.0), arms[1])),
        synthetic_page.View("others", tuple(line(f"other {number}", 1.0, 2.0) for number in range(3))),
    )
    page = write(tmp_path / "study.html", study(synthetic_page.Figure("Curve", "", "lines", views, "x", "y")))
    open_page(driver, page.as_uri())
    plot = "document.getElementById('figure-1-plot').data.map((one) => [one.name, one.line.color, one.line.dash])"
    looks = []
    for number in range(3):
        pick = (
            "const s = document.getElementById('figure-1-choice'); s.value = '%d'; s.dispatchEvent(new Event('change'))"
        )
        driver.execute_script(pick % number)
        looks.append({name: (colour, dash) for name, colour, dash in driver.execute_script(f"return {plot}")})
    assert looks[1]["arm 1"] == looks[0]["arm 1"] != looks[1]["new"]
    assert all(len(set(look.values())) == len(look) for look in looks)
    assert {dash for _, dash in looks[2].values()} == {"solid"}
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
