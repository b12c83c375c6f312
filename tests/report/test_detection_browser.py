"""The page of a detection in a browser, at two widths: it draws, picks segments and channels, and logs no error."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detections import entity, summary

from rearview.report import write_detection

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
    assert run("document.getElementById('score-plot').data.length") == 2
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
