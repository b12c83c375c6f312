"""The page in a real browser, opened from the file system."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opened_page import open_page

from rearview.estimators.auto.ensemble import Standing
from rearview.report.common.page import write
from rearview.report.forecast.page import ForecastSummary
from rearview.report.results import study

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"),
]

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def pages(seven: ForecastSummary, odd: ForecastSummary, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: write(folder / f"{name}.html", summary) for name, summary in (("seven", seven), ("odd", odd))}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, which the dev extra installs")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    yield driver
    driver.quit()


class Opened:
    """One page in the browser, with what a reader does on it."""

    def __init__(self, driver: Any, path: Path, width: int) -> None:
        self.driver = driver
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get_log("browser")
        driver.get_log("performance")
        open_page(driver, path.as_uri())

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def field(self, name: str) -> Any:
        return self.driver.find_element("id", name)

    def pick(self, text: str) -> None:
        from selenium.webdriver.common.keys import Keys

        field = self.field("series")
        field.click()
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text, Keys.ENTER)

    def select(self, name: str, value: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.field(name)).select_by_value(value)

    def drawn(self, plot: str, name: str) -> list[float | None]:
        """The values of the first trace of that name."""
        found = self.run(
            f"return document.getElementById('{plot}').data.filter((trace) => trace.name === '{name}').map((trace) => "
            "Array.from(trace.y))"
        )
        return found[0] if found else []

    def traces(self, plot: str) -> int:
        return self.run(f"return document.getElementById('{plot}').data.length")

    def check(self) -> None:
        """No console message, no request beyond the file system, no sideways scrolling."""
        assert self.driver.get_log("browser") == []
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        assert [url for url in urls if not url.startswith(("file:", "data:", "blob:"))] == []
        assert self.run("return document.documentElement.scrollWidth <= window.innerWidth")


def brightest(page: Opened, box: str) -> int:
    """Of the pixels down the right edge of a table's rows inside `box`: the lightest, from 0 to 255."""
    element = page.driver.find_element("css selector", box)
    return page.driver.execute_async_script(
        "const [box, data, done] = arguments; const image = new Image();"
        "image.onload = () => { const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');"
        "canvas.drawImage(image, 0, 0);"
        "const rows = box.querySelector('tbody').getBoundingClientRect();"
        "const top = rows.top - box.getBoundingClientRect().top;"
        # Below the rows may be a scroll bar, and below the window nothing was drawn.
        "const height = Math.min(rows.height, image.height - top) - 4;"
        "const { data } = canvas.getImageData(image.width - 3, top + 2, 1, height);"
        "done(Math.max(...data.filter((value, place) => place % 4 === 0))); };"
        "image.src = `data:image/png;base64,${data}`;",
        element,
        element.screenshot_as_base64,
    )


def test_a_table_that_goes_on_to_the_right_has_a_shadow_there(driver: Any, tmp_path: Path):
    import small_results

    from rearview.commands.report import read, summarise

    told = summarise(read([str(path) for path in small_results.write(tmp_path)]), "rearview report study.csv")
    path = write(tmp_path / "results.html", told)
    narrow = Opened(driver, path, 420)
    assert (
        narrow.run("const box = document.querySelector('#leaders .scroll'); return box.scrollWidth - box.clientWidth")
        > 8
    )
    fits = "const box = document.querySelector('#answers .scroll'); return box.scrollWidth <= box.clientWidth"
    assert Opened(driver, path, 400).run(fits)
    narrow = Opened(driver, path, 420)
    paper = int(narrow.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
    assert brightest(narrow, "#leaders .scroll") < paper - 10
    narrow.run("document.querySelector('#leaders .scroll').scrollLeft = 9999")
    assert brightest(narrow, "#leaders .scroll") >= paper - 1
    assert brightest(Opened(driver, path, 1280), "#leaders .scroll") >= paper - 1


@pytest.mark.parametrize("width", [1400, 400])
def test_another_column_is_drawn_when_picked(driver: Any, pages: dict[str, Path], seven: ForecastSummary, width: int):
    page = Opened(driver, pages["seven"], width)
    for plot in ("forecast-plot", "backtest-plot"):
        assert page.traces(plot) > 2
    assert page.drawn("forecast-plot", "patchtst") == pytest.approx(
        seven.series[0].forecast.models["patchtst"].mean, rel=1e-5
    )
    page.pick("ot")
    assert page.field("series").get_property("value") == "OT"
    assert page.field("series-position").get_property("textContent") == "7 of 7"
    assert page.drawn("forecast-plot", "patchtst") == pytest.approx(
        seven.series[6].forecast.models["patchtst"].mean, rel=1e-5
    )
    assert page.field("backtest-subject").text.startswith("OT ")
    page.check()


def test_model_window_measure_and_history_redraw(driver: Any, pages: dict[str, Path], seven: ForecastSummary):
    page = Opened(driver, pages["seven"], 1400)
    everything = page.traces("backtest-plot")
    page.select("window", "1")
    assert page.traces("backtest-plot") < everything
    assert page.drawn("backtest-plot", "patchtst") == pytest.approx(
        seven.series[0].backtest[1].models["patchtst"].mean, rel=1e-5
    )
    page.select("model", "dlinear")
    assert page.drawn("forecast-plot", "patchtst") == []
    page.select("model", "*")
    assert all(page.drawn("forecast-plot", model) for model in seven.models)
    absolute = page.drawn("steps-plot", "patchtst")
    page.select("measure", "mse")
    assert page.drawn("steps-plot", "patchtst") != absolute
    start = "return document.getElementById('forecast-plot').layout.xaxis.range[0]"
    recent = page.run(start)
    page.run("document.getElementById('whole-history').click()")
    assert page.run(start) < recent
    page.check()


def test_members_are_thin_lines_behind_the_forecast_that_leads(driver: Any, tmp_path: Path, seven: ForecastSummary):
    board = (Standing("dlinear", "", 0.9, 0.2, 0.6, 1.0), Standing("seasonal_naive", "", 1.0, 0.3, 0.0, 1.0))
    page = Opened(driver, write(tmp_path / "members.html", replace(seven, candidates=board)), 1400)
    widths = "return document.getElementById('forecast-plot').data.filter((one) => one.name).map((one) => [one.name, "
    assert dict(page.run(widths + "one.line.width])")) == {"dlinear": 1, "history": 1.4, "patchtst": 1.75}
    assert "Thin lines: what patchtst is the weighted mean of." in page.field("forecast-subject").text
    page.select("model", "dlinear")
    assert page.drawn("forecast-plot", "patchtst") == []
    assert "Thin" not in page.field("forecast-subject").text
    page.check()


def test_the_values_stand_in_a_table_and_in_a_csv(driver: Any, pages: dict[str, Path], seven: ForecastSummary):
    page = Opened(driver, pages["seven"], 1400)
    page.run("document.querySelector('#forecast-values summary').click()")
    page.run(
        "const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.blob = blob; return make(blob); };"
        "HTMLAnchorElement.prototype.click = function () { window.saved = this.download; };"
    )
    page.field("forecast-csv").click()
    csv = driver.execute_async_script("window.blob.text().then(arguments[0])").splitlines()
    assert page.run("return window.saved") == "forecast-HUFL.csv"
    assert csv[0].split(",")[:4] == ["unique_id", "ds", "patchtst", "patchtst-lo-80"]
    assert csv[1].split(",")[:2] == ["HUFL", "2024-03-17 16:00"]
    assert float(csv[1].split(",")[2]) == pytest.approx(seven.series[0].forecast.models["patchtst"].mean[0], rel=1e-5)
    assert len(csv) == 1 + len(seven.series[0].forecast.stamps)
    assert page.run("return document.querySelectorAll('#forecast-table tbody tr').length") == len(
        seven.series[0].forecast.stamps
    )
    page.check()


@pytest.mark.parametrize("width", [1400, 400])
def test_odd_names_and_values_are_drawn(driver: Any, pages: dict[str, Path], odd: ForecastSummary, width: int):
    page = Opened(driver, pages["odd"], width)
    for text, place in (("onerror", 1), ("zurich", 2), ("quoted", 3), ("very long", 4), ("shop 299", 299)):
        page.pick(text)
        assert page.field("series").get_property("value") == odd.series[place].id
        assert page.run("return document.title") == odd.title
        assert page.run("return document.getElementById('forecast-plot').data.length") >= 1
    page.check()


def test_the_picker_is_worked_by_keys_and_buttons(driver: Any, pages: dict[str, Path], odd: ForecastSummary):
    from selenium.webdriver.common.keys import Keys

    page = Opened(driver, pages["odd"], 1400)
    field = page.field("series")
    field.click()
    assert field.get_attribute("aria-expanded") == "true"
    assert page.run("return document.querySelectorAll('#series-list [role=option]').length") == 100
    field.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert field.get_property("value") == odd.series[2].id
    page.field("series-next").click()
    assert page.field("series-position").text == "4 of 300"
    field.click()
    field.send_keys("nothing is called so")
    assert page.run("return document.querySelectorAll('#series-list [role=option]').length") == 0
    field.send_keys(Keys.ESCAPE)
    assert field.get_property("value") == odd.series[3].id
    assert field.get_attribute("aria-expanded") == "false"
    page.check()


def test_the_command_is_copied_or_selected(driver: Any, pages: dict[str, Path], odd: ForecastSummary):
    page = Opened(driver, pages["odd"], 1400)
    page.field("copy").click()
    said = "return document.getElementById('copied').textContent"
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait(driver, 10)
    wait.until(lambda _: page.run(said))
    assert page.run(said) in ("Copied.", "Selected; press Ctrl+C to copy.")
    assert page.run("return document.getElementById('command').textContent") == odd.command
    page.check()


def test_dark_pages_draw_with_dark_colours(driver: Any, pages: dict[str, Path]):
    colour = "return document.getElementById('forecast-plot').layout.hoverlabel.font.color"
    page = Opened(driver, pages["seven"], 1400)
    light = page.run(colour)
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        page.driver.refresh()
        assert page.run(colour) != light
        page.check()
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("width", [1400, 400])
def test_cases_of_another_class_are_drawn_when_picked(driver: Any, tmp_path: Path, width: int):
    from small_classification import summary

    told = summary()
    page = Opened(driver, write(tmp_path / "classes.html", told), width)
    assert page.drawn("examples-plot", "channel 2") == pytest.approx(told.examples[0].values[1], rel=1e-5)
    page.select("label", "down")
    first = next(example for example in told.examples if example.label == "down")
    assert page.drawn("examples-plot", "channel 1") == pytest.approx(first.values[0], rel=1e-5)
    page.select("label", "up")
    page.select("case", "5")
    assert "taken for down" in page.field("examples-subject").text
    assert page.traces("loss-plot") == 2
    page.check()


@pytest.mark.parametrize("width", [1280, 420])
def test_results_of_another_data_set_are_drawn_when_picked(driver: Any, tmp_path: Path, width: int):
    import small_results

    from rearview.commands.report import read, summarise

    told = summarise(read([str(path) for path in small_results.write(tmp_path)]), "rearview report study.csv")
    page = Opened(driver, write(tmp_path / "results.html", told), width)
    seen = "return [...document.querySelectorAll('.board')].filter((board) => !board.hidden).length"
    assert page.run(seen) == 4
    assert page.traces("cost-plot") == 1 + 6  # the front of those that none beats, then the candidates
    rows = (
        "return [...document.querySelectorAll('.board:not([hidden]) tr[data-tag]')].filter((row) => !row.hidden).length"
    )
    every = page.run(rows)
    page.select("model", "dlinear")
    assert page.traces("cost-plot") == 1 + 1
    assert page.run(rows) == 4
    page.select("model", "")
    assert page.run(rows) == every
    first = "return document.querySelector('.board:not([hidden]) tbody tr').cells[0].textContent"
    assert page.run(first) == "patchtst + rbca(alpha=0.1)"
    page.select("metric", "mae")
    assert page.run(first) == "dlinear"
    page.select("metric", "mse")
    page.select("dataset", "ETTh2")
    assert page.traces("cost-plot") == 1 + 4
    assert page.traces("horizons-plot") == 4
    means = [e.scores["mae"].mean for e in told.entries if (e.name, e.dataset) == ("patchtst + toa", "ETTh2")]
    page.select("metric", "mae")
    assert page.drawn("horizons-plot", "patchtst + toa") == pytest.approx(means)
    page.select("cost-kind", "train_seconds")
    page.select("horizon", "720")
    assert page.run("return document.getElementById('cost-plot').layout.xaxis.type") == "log"
    page.select("scope", "classification|published:tslib")
    assert page.run(seen) == 1
    assert page.run("return document.getElementById('horizons').hidden")
    page.check()


@pytest.mark.parametrize("width", [1400, 420])
def test_a_long_leaderboard_is_opened_whole_and_outliers_stay_in_the_figure(driver: Any, tmp_path: Path, width: int):
    import small_results

    from rearview.bench.rows import result_file as store
    from rearview.commands.report import read, summarise

    path = tmp_path / "many.csv"
    for place in range(40):
        model = ("patchtst", "itransformer", "dlinear")[place % 3]
        attention = "" if model == "dlinear" else ("softmax", "toa", "prime")[place % 2]
        settings = f'{{"width":{8 + place}}}'
        mse = 9.0 if place == 39 else 0.4 + place / 1000
        store.append(path, small_results.row(model=model, attention=attention, settings=settings, mse=mse))
    page = Opened(driver, write(tmp_path / "many.html", summarise(read([str(path)]), "")), width)
    rows = "return [...document.querySelectorAll('tr[data-tag]')].filter((row) => !row.hidden).length"
    assert page.run(rows) == 20
    page.run("document.querySelector('.more').click()")
    assert page.run(rows) == 40
    assert page.run("return document.querySelector('.more').hidden")
    # By mechanism and network, not one by one; the worst stands at the edge.
    assert page.run("return document.querySelectorAll('#cost-key li').length") == 2 + 3 + 3
    assert page.run("return Math.max(...document.getElementById('cost-plot').data.flatMap((trace) => trace.y))") < 1
    assert "1 candidate far worse stands at the edge" in page.field("cost-subject").text
    page.check()


def test_a_protocol_shows_the_measure_that_decides_under_it_until_one_is_picked(driver: Any, tmp_path: Path):
    import small_results

    from rearview.bench.rows import result_file as store
    from rearview.commands.report import read, summarise

    for one in small_results.detected():
        store.append(tmp_path / "detected.csv", one)
    told = summarise(read([str(tmp_path / "detected.csv")]), "")
    page = Opened(driver, write(tmp_path / "detected.html", told), 1280)
    shown = "return [document.getElementById('metric').value, "
    shown += "document.querySelector('.board:not([hidden]) tbody tr').cells[0].textContent]"
    assert page.run(shown) == ["auc_pr", "itransformer + toa"]
    page.select("scope", "detection|published:tslib")
    assert page.run(shown) == ["adjusted_f1", "itransformer + softmax"]
    page.select("scope", "detection|clean")
    assert page.run(shown) == ["auc_pr", "itransformer + toa"]
    page.select("metric", "f1")
    page.select("scope", "detection|published:tslib")
    assert page.run(shown)[0] == "f1"
    page.check()


@pytest.mark.parametrize("width", [1280, 400])
def test_a_map_of_channels_has_their_names_along_both_sides(driver: Any, tmp_path: Path, width: int) -> None:
    from test_synthetic_page import summary

    def view(count: int) -> study.View:
        cells = np.random.default_rng(count).random((count, count))
        return study.View(f"{count} channels", map=cells, labels=tuple(f"<b>channel</b> {n}" for n in range(count)))

    maps = study.Figure("Maps", "Weights.", "map", (view(11), view(101)), "looked at", "looks")
    page = Opened(driver, write(tmp_path / "maps.html", summary(maps)), width)
    ticks = "return Array.from(document.querySelectorAll('.{axis}tick text')).map((one) => one.textContent)"
    for axis in "xy":
        shown = page.run(ticks.format(axis=axis))
        assert len(shown) == 11
        assert all(one.startswith("<b>channel") for one in shown)
    page.check()
    page.run("const one = document.querySelector('select'); one.value = '1'; one.dispatchEvent(new Event('change'))")
    shown = page.run(ticks.format(axis="y"))
    assert 0 < len(shown) < 40, "there is no room for 101 names"
    assert all(one.isdigit() for one in shown)
    page.check()
