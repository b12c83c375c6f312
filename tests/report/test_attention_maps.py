"""Maps of attention weights on the page: one byte a cell, names kept once, drawn as picked."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_browser import BROWSER, DRIVER, Opened, driver  # noqa: F401

from rearview.core.errors import InputError
from rearview.report.common.page import render, write
from rearview.report.common.payload import dump
from rearview.report.forecast.page import LEVELS, ForecastSummary, encode
from rearview.report.forecast.views import AgeCurve, AttentionView, Names, WeightMap

ODD = ("<b>load</b>", "wind & sun", "a long name of a column that no axis has room for", "</script>")


def look(name: str, seed: int, *, signed: bool = False) -> AttentionView:
    draw = np.random.default_rng(seed)
    times = Names(tuple(f"2024-03-{day:02d} {hour:02d}:00" for day in (1, 2, 3) for hour in (0, 8, 16)))
    columns = Names(ODD)
    weights = draw.dirichlet(np.ones(9), size=9)
    maps = (
        WeightMap("layer 1, head 1", weights, times, times),
        WeightMap("layer 1, head 2", weights - 0.1 if signed else weights[::-1], times, times),
        WeightMap("layer 2", draw.random((9, 4)), times, columns),
        WeightMap("layer 3", np.zeros((4, 4)), columns, columns),
    )
    curve = AgeCurve("layer 1", np.arange(-64.0, 65.0, 8), draw.random(17))
    return AttentionView("net", name, f"What {name} is about.", maps, (curve,) if seed else ())


@pytest.fixture
def summary(seven: ForecastSummary) -> ForecastSummary:
    return replace(seven, looks=(look("HUFL", 1), look("</script>", 2, signed=True), look("OT", 0)))


def test_cells_come_back_within_half_a_level(summary: ForecastSummary):
    looks = encode(summary)[0]["looks"]
    assert [view["name"] for view in looks["views"]] == ["HUFL", "</script>", "OT"]
    for view, told in zip(looks["views"], summary.looks, strict=True):
        for found, one in zip(view["maps"], told.maps, strict=True):
            low, high = found["scale"]
            levels = np.frombuffer(base64.b64decode(found["cells"]), np.uint8).reshape(one.weights.shape)
            np.testing.assert_allclose(
                low + levels / LEVELS * (high - low), one.weights, atol=(high - low) / LEVELS / 2 + 1e-9
            )
            np.testing.assert_allclose(found["span"], [one.weights.min(), one.weights.max()], rtol=0.01)
            assert tuple(looks["axes"][found["rows"]]["cells"]) == one.queries.cells
            assert tuple(looks["axes"][found["columns"]]["cells"]) == one.keys.cells
    assert len(looks["axes"]) == 2


def test_maps_with_both_signs_have_0_in_the_middle(summary: ForecastSummary):
    views = encode(summary)[0]["looks"]["views"]
    assert views[0]["maps"][1]["scale"][0] == 0
    low, high = views[1]["maps"][1]["scale"]
    assert low == -high < 0


def test_networks_are_named_where_there_are_several(seven: ForecastSummary):
    two = (look("OT", 1), replace(look("OT", 1), model="other"))
    views = encode(replace(seven, looks=two))[0]["looks"]["views"]
    assert [view["name"] for view in views] == ["net: OT", "other: OT"]


def test_a_map_needs_a_name_for_every_row_and_column():
    with pytest.raises(InputError, match=r"'layer 1' is of shape \(2, 3\), but has names for 2 rows and 2 columns"):
        WeightMap("layer 1", np.zeros((2, 3)), Names(("a", "b")), Names(("a", "b")))


def test_the_section_is_there_when_there_is_something_to_see(summary: ForecastSummary, seven: ForecastSummary):
    shown = '<section id="looks" aria-labelledby="looks-title">'
    assert shown in render(summary)
    assert shown not in render(seven)
    assert len(dump(encode(summary)[0])) - len(dump(encode(seven)[0])) < 10_000


@pytest.mark.slow
@pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_the_picked_map_is_drawn_large(
    driver: Any,  # noqa: F811
    summary: ForecastSummary,
    tmp_path: Path,
    width: int,
    scheme: str,
):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    page = Opened(driver, write(tmp_path / "looks.html", summary), width)
    drawn = "return document.getElementById('look-plot').data[0].z.map((row) => Array.from(row))"
    maps = "return document.querySelectorAll('#look-maps button').length"
    assert page.run(maps) == 4
    np.testing.assert_allclose(page.run(drawn), summary.looks[0].maps[0].weights, atol=0.01)
    # The darkest cell of the small map lies where the weight is largest, and it has the colour of the largest.
    pixels = (
        "const canvas = document.querySelector('#look-maps canvas');"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        "return Array.from(data).filter((_, place) => place % 4 === 2)"
    )
    blue = np.array(page.run(pixels)).reshape(9, 9)
    far = np.abs(blue - int(blue[np.unravel_index(summary.looks[0].maps[0].weights.argmin(), (9, 9))]))
    assert np.unravel_index(far.argmax(), (9, 9)) == np.unravel_index(summary.looks[0].maps[0].weights.argmax(), (9, 9))
    assert page.traces("ages-plot") == 1

    page.select("look", "1")
    page.run("document.querySelectorAll('#look-maps button')[1].click()")
    np.testing.assert_allclose(page.run(drawn), summary.looks[1].maps[1].weights, atol=0.01)
    ends = page.run("const [trace] = document.getElementById('look-plot').data; return [trace.zmin, trace.zmax]")
    assert ends[0] == -ends[1] < 0
    assert "What </script> is about." in page.field("look-subject").text
    page.run("document.querySelectorAll('#look-maps button')[2].click()")
    ticks = page.run("return document.getElementById('look-plot').layout.xaxis.ticktext")
    assert ticks[0] == "&lt;b&gt;load&lt;/b&gt;"
    assert page.run("return document.querySelector('#look-maps button:nth-child(3)').ariaPressed") == "true"

    page.select("look", "2")
    assert page.run("return document.getElementById('ages').hidden")
    page.run("document.querySelectorAll('#look-maps button')[3].click()")
    assert page.run("return document.getElementById('look-title').textContent") == "Layer 3: weights from 0 to 0"
    page.check()
