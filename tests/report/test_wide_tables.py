"""Wide tables of the page about results in a real browser: they fit a screen, or scroll in their own box."""

from pathlib import Path
from typing import Any

import pytest
import small_results
from test_browser import BROWSER, DRIVER, Opened, driver  # noqa: F401

from rearview.bench.rows import result_file as store
from rearview.commands.report import read, summarise
from rearview.report.common.page import write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"),
]

EVERY_NUMBER = "#papers details .scroll"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with rows of every task, so that its table of printed numbers has all columns."""
    folder = tmp_path_factory.mktemp("wide")
    files = [*small_results.write(folder), folder / "detected.csv"]
    for row in small_results.detected():
        store.append(files[-1], row)
    return write(folder / "results.html", summarise(read([str(file) for file in files]), "rearview report"))


def opened(driver: Any, path: Path, width: int) -> Opened:  # noqa: F811
    page = Opened(driver, path, width)
    page.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    return page


def test_every_printed_number_fits_a_screen(driver: Any, path: Path) -> None:  # noqa: F811
    page = opened(driver, path, 1280)
    heads = page.run(f"return document.querySelectorAll('{EVERY_NUMBER} thead th').length")
    assert heads == 10
    over = f"const box = document.querySelector('{EVERY_NUMBER}'); return box.scrollWidth - box.clientWidth"
    assert page.run(over) <= 0
    page.check()


def test_on_a_telephone_it_scrolls_in_its_box_and_names_stay(driver: Any, path: Path) -> None:  # noqa: F811
    page = opened(driver, path, 390)
    left = (
        f"const box = document.querySelector('{EVERY_NUMBER}'); const edge = (cell) => Math.round("
        "box.querySelector(cell).getBoundingClientRect().left); return [edge('tbody th'), edge('tbody td')]"
    )
    name, cell = page.run(left)
    page.run(f"document.querySelector('{EVERY_NUMBER}').scrollLeft = 200")
    assert page.run(left) == [name, cell - 200]
    page.check()
