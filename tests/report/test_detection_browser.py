"""The pages of a detection and of a study in a browser: they draw what is picked, and log no error."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detections import entity, summary
from test_synthetic_page import line
from test_synthetic_page import summary as study

from rearview.report import synthetic, write_detection

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
    page = write_detection(tmp_path / "report.html", summary(*pumps))
    driver.set_window_size(width, 900)
    driver.get(page.as_uri())

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


def test_lines_of_a_study_are_told_apart_in_every_view(driver: Any, tmp_path: Path) -> None:
    """A name keeps its look in all views, and views of other names don't begin with dashes."""
    arms = [line(f"arm {number}", 1.0, 2.0) for number in range(6)]
    views = (
        synthetic.View("all", tuple(arms)),
        synthetic.View("some", (line("new", 3.0, 4.0), arms[1])),
        synthetic.View("others", tuple(line(f"other {number}", 1.0, 2.0) for number in range(3))),
    )
    page = synthetic.write(tmp_path / "study.html", study(synthetic.Figure("Curve", "", "lines", views, "x", "y")))
    driver.get(page.as_uri())
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
