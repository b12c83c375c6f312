"""Where networks look, as the page of a run has it: few maps of few cells, true to the weights, never in the way."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import forecast
from samples import SMALL, forecaster, long, wide

from rearview.commands.forecast import attention_maps
from rearview.commands.forecast.attention_maps import MAPS, SIDE, VIEWS, attention_views, weight_count
from rearview.estimators.forecast.attention_maps import AttentionMaps
from rearview.report.forecast.views import AttentionView


def looked(model: str, frame: Any = None, **asked: Any) -> tuple[AttentionMaps, tuple[AttentionView, ...]]:
    one = forecaster(model, **asked).fit(wide() if frame is None else frame)
    found, notes = attention_views(model, one, one.tail, None)
    assert notes == ()
    return one.explain(), found


def test_every_head_has_a_map_of_its_weights() -> None:
    maps, found = looked("patchtst", settings={**SMALL, "patch": 6, "stride": 6})
    assert [look.name for look in found] == ["load", "wind"]
    assert [one.name for one in found[1].maps] == ["layer 1, head 1", "layer 1, head 2"]
    np.testing.assert_allclose(found[1].maps[1].weights, maps["layer 1"][0, 1, 1])
    assert found[1].maps[1].queries.cells[0] == "2024-03-06 16:00"
    assert found[1].maps[1].keys == found[1].maps[1].queries
    assert found[0].about == "A token is named by its first step."


def test_steps_that_are_joined_keep_the_sum_of_a_row() -> None:
    maps, found = looked("transformer", lookback=96, settings={**SMALL, "label": 3})
    (look,) = found
    assert [one.name for one in look.maps] == [
        f"{part} 1, head {head}" for part in ("encoder", "decoder") for head in (1, 2)
    ]
    assert [one.name for one in look.ages] == ["encoder 1", "decoder 1"]
    whole, joined = maps["encoder 1"][0, 0, 0], look.maps[0].weights
    assert joined.shape == (48, 48)
    np.testing.assert_allclose(joined.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(joined[3, 5], whole[6:8, 10:12].sum(1).mean(), rtol=1e-5)
    assert look.maps[0].keys.cells[5] == maps.labels["encoder 1"].tokens()[10].removesuffix(":00")
    assert "A cell joins up to 2 tokens that follow one another." in look.about


def test_weight_by_age_is_the_mean_of_all_pairs_of_that_age() -> None:
    maps, found = looked("patchtst", settings={**SMALL, "patch": 6, "stride": 6})
    (curve,) = found[0].ages
    weights = maps["layer 1"][0, 0].mean(0)
    assert curve.ages.tolist() == [-24, -18, -12, -6, 0, 6, 12, 18, 24]
    np.testing.assert_allclose(
        curve.weights[[0, 4, 5]], [weights[0, 4], np.diag(weights).mean(), np.diag(weights, -1).mean()]
    )
    _, causal = looked("powerformer", settings={**SMALL, "patch": 6, "stride": 6})
    assert causal[0].ages[0].ages.min() == 0


def test_columns_have_no_age_and_are_not_joined() -> None:
    columns = tuple(f"column {number}" for number in range(70))
    maps, found = looked("itransformer", wide(columns=columns), calendar=False)
    (look,) = found
    assert look.name == "all columns"
    assert look.ages == ()
    assert look.maps[0].keys.cells == columns[:SIDE]
    np.testing.assert_allclose(look.maps[0].weights, maps["layer 1"][0, 0, 0, :SIDE, :SIDE])
    assert f"The maps hold the first {SIDE} of 70 columns." in look.about


def test_patches_of_several_columns_are_joined_within_a_column() -> None:
    columns = tuple("abcdefghijk")
    _, found = looked("timer_xl", wide(columns=columns), settings={**SMALL, "patch": 3})
    keys = found[0].maps[0].keys
    assert len(keys.cells) == 11 * 4
    assert keys.runs == tuple((4 * place, name) for place, name in enumerate(columns))


def test_more_heads_than_fit_are_shown_by_their_mean_and_the_odd_ones() -> None:
    maps, found = looked("patchtst", settings={"width": 20, "heads": 20, "depth": 3, "feed_forward": 8})
    names = [one.name for one in found[0].maps]
    assert len(names) == 15
    assert names[0] == "layer 1, mean of heads"
    weights = maps["layer 1"][0, 0]
    np.testing.assert_allclose(found[0].maps[0].weights, weights.mean(0), rtol=1e-5)
    apart = np.square(weights - weights.mean(0)).sum((1, 2))
    assert names[1:5] == [f"layer 1, head {head + 1}" for head in sorted(np.argsort(-apart)[:4])]
    assert "Of 20 heads the maps show the mean and the 4 heads most unlike it." in found[0].about


def test_parts_and_layers_share_the_room() -> None:
    _, found = looked("caps_net", settings={"width": 8, "heads": 2, "depth": 6})
    assert len(found[0].maps) == MAPS
    assert "There are maps of 16 of 18 layers. " in found[0].about
    assert found[0].maps[0].name == "layer 1, riemann, mean of heads"
    assert any(one.weights.min() < 0 for one in found[0].maps)
    maps, found = looked("patchtst", attention="mica")
    cross = next(one for one in found[1].maps if one.name == "layer 1, cross, head 2")
    assert cross.keys.cells == ("load", "wind")
    np.testing.assert_allclose(cross.weights, maps["layer 1"]["cross"][0, 1, 1].sum(-1), rtol=1e-5)


def test_padding_is_not_drawn_and_few_series_can_be_chosen() -> None:
    frame = long({"north": 160, "a": 10, "b": 60, "c": 60, "d": 60, "e": 60})
    _, found = looked("patchtst", frame, settings={**SMALL, "patch": 6, "stride": 6})
    assert [look.name for look in found] == ["north", "a", "b", "c"]
    assert found[1].maps[0].weights.shape == (3, 3)
    np.testing.assert_allclose(found[1].maps[0].weights.sum(1), 1, rtol=1e-5)
    assert f"The first {VIEWS} of 6 series can be chosen." in found[0].about


def test_what_goes_wrong_is_reported_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    one = forecaster().fit(wide())
    with monkeypatch.context() as patched:
        patched.setattr(one.fitted.network, "weights", lambda *_, **__: 1 / 0)
        assert attention_views("patchtst", one, one.tail, None) == (
            (),
            ("Where patchtst looks can't be shown: division by zero",),
        )
    monkeypatch.setattr(attention_maps, "MOST_WEIGHTS", 10)
    found, (note,) = attention_views("patchtst", one, one.tail, None)
    assert found == ()
    assert "too many to work out" in note


def test_the_count_of_weights_is_no_less_than_there_are() -> None:
    for attention in ("softmax", "caps", "mica"):
        one = forecaster("patchtst", attention=attention).fit(wide())
        parts = one.explain()["layer 1"]
        there = sum(part.size for part in parts.values()) if isinstance(parts, dict) else parts.size
        assert there <= weight_count(one.fitted.network, 1) <= 3 * there


def data_of(page: Path) -> Any:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_of_a_run_shows_where_its_networks_look(
    sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_maps, "LEAST_FOCUS", -1.0)  # after two epochs it looks everywhere about alike
    assert forecast(sales, tmp_path / "both", "--model", "patchtst,itransformer") == 0
    page = tmp_path / "both" / "report.html"
    names = [view["name"] for view in data_of(page)["looks"]["views"]]
    assert names == ["patchtst: load", "patchtst: wind", "itransformer: all columns"]
    assert '<section id="looks" aria-labelledby="looks-title">' in page.read_text(encoding="utf-8")
    assert forecast(sales, tmp_path / "linear", "--model", "dlinear") == 0
    page = tmp_path / "linear" / "report.html"
    assert data_of(page)["looks"]["views"] == []
    assert '<section id="looks" aria-labelledby="looks-title" hidden>' in page.read_text(encoding="utf-8")


def layer(weights: Any) -> attention_maps.Layer:
    count = weights.shape[-1]
    names = [f"2024-01-{row + 1:02d}" for row in range(count)]
    axis = attention_maps.Axis.of(
        names, ["load"] * count, [(row, row + 1) for row in range(count)], np.ones(count, bool)
    )
    return attention_maps.Layer("layer 1", weights[None].astype(np.float32), axis, axis)


def test_a_sentence_says_what_a_layer_looks_at_most() -> None:
    count = 12
    weights = np.full((count, count), 0.02)
    weights[np.arange(7, count), np.arange(count - 7)] = 0.78
    weights /= weights.sum(1, keepdims=True)
    assert layer(weights).focus() > 0.1
    assert layer(weights).say().startswith("In layer 1 a token looks most at 7 steps before: ")


def test_even_attention_is_left_off_the_page_with_a_note(
    sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert layer(np.full((5, 5), 0.2)).focus() == pytest.approx(0, abs=1e-6)
    monkeypatch.setattr(attention_maps, "LEAST_FOCUS", 2.0)
    assert forecast(sales, tmp_path / "even", "--model", "patchtst", "--windows", "0") == 0
    page = tmp_path / "even" / "report.html"
    assert data_of(page)["looks"]["views"] == []
    text = page.read_text(encoding="utf-8")
    assert "The attention of patchtst is not drawn: it looks everywhere about alike." in text
