"""Inputs of a forecast are told in the terminal, in run.json and on the page, with their effects by name."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rearview.cli import main
from rearview.data.holidays import ANY
from rearview.data.panel_reader import load

HORIZON = 14


def write_stores(folder: Path) -> tuple[Path, Path]:
    """Two kinds of store that sell half on holidays, and 30 or 90 % more in promotions."""
    rng, days = np.random.default_rng(0), pd.date_range("2023-03-01", periods=420)
    calendar = load(pd.DataFrame({"date": days, "y": np.arange(420.0)}), holidays="DE")
    closed = calendar.original(slice(0, 420), 0)[:, calendar.columns.index(ANY)]
    parts = []
    for n in range(4):
        promo = np.array(["none", "flyer", "tv"])[rng.choice(3, 420, p=[0.8, 0.12, 0.08])]
        lift = np.select([promo == "flyer", promo == "tv"], [1.3, 1.9], 1.0) * np.where(closed > 0, 0.5, 1)
        y = (60 + 10 * n + 10 * np.sin(2 * np.pi * np.arange(420) / 7)) * lift + rng.normal(0, 2, 420)
        facts = {"promo": promo, "heat": rng.normal(20, 3, 420), "kind": "mall" if n % 2 else "street"}
        parts.append(pd.DataFrame({"unique_id": f"s{n}", "ds": days, "y": y, **facts}))
    whole = pd.concat(parts)
    ahead = whole["ds"] > days[-1 - HORIZON]
    whole[~ahead].to_csv(folder / "stores.csv", index=False)
    whole[ahead][["unique_id", "ds", "promo"]].to_csv(folder / "plan.csv", index=False)
    return folder / "stores.csv", folder / "plan.csv"


def page_data(page: Path) -> dict[str, Any]:
    found = re.search(r'id="report-data"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def test_who_uses_what_is_told_everywhere_and_effects_are_drawn_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stores, plan = write_stores(tmp_path)
    told = ["--known", "promo", "--holidays", "DE"]
    assert main(["check", str(stores), *told]) == 0
    checked = capsys.readouterr().out
    for line in (
        "Input promo, known in the future.",
        "Input public holidays, known by the calendar.",
        "Input heat, past values alone.",
        "Input kind, describes the series.",
    ):
        assert line in checked
    out = tmp_path / "out"
    asked = ["forecast", str(stores), *told, "--future", str(plan), "--horizon", str(HORIZON), "--windows", "2"]
    assert main([*asked, "--model", "ridge", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "- promo, known in the future: used by ridge." in printed
    assert "- heat, past values alone: used by none of the models." in printed
    facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
    uses = {one["name"]: one["used_by"] for one in facts["inputs"]}
    assert uses == {"promo": ["ridge"], ANY: ["ridge"], "heat": [], "kind": ["ridge"]}
    assert facts["models"]["ridge"]["leaderboard"][0]["uses"] == ["promo", ANY, "kind"]

    data = page_data(out / "report.html")
    series = data["series"][0]
    assert [one["name"] for one in series["inputs"]] == ["promo=flyer", "promo=tv", ANY]
    parts = {one["name"]: one for one in series["parts"]}
    by_category = parts["Effect of promo, by category"]
    assert by_category["unit"] == "percent"
    assert dict(zip(by_category["phases"], by_category["y"], strict=True)) == {
        "flyer": pytest.approx(30, abs=4),
        "tv": pytest.approx(90, abs=6),
    }
    by_name = parts["Public holidays by name"]
    assert {"Good Friday", "Easter Monday", "Christmas Day"} <= set(by_name["phases"])
    assert np.median(by_name["y"]) == pytest.approx(-50, abs=6)
    assert "A holiday that was not seen: −" in by_name["words"]
    assert min(parts[f"Effect of {ANY}"]["y"]) < -25
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Inputs, and who uses them" in page
    assert "past values alone" in page


def test_what_inputs_do_to_the_forecast_of_a_network_is_drawn_too(tmp_path: Path) -> None:
    stores, plan = write_stores(tmp_path)
    asked = ["forecast", str(stores), "--known", "promo", "--future", str(plan), "--drop", "heat", "--horizon", "14"]
    small = ["--set", "width=8,heads=2,depth=1", "--train", "epochs=2", "--windows", "0", "--lookback", "28"]
    out = tmp_path / "out"
    assert main([*asked, "--model", "itransformer", *small, "--out", str(out)]) == 0
    parts = {one["name"]: one for one in page_data(out / "report.html")["series"][0]["parts"]}
    effect = parts["Effect of promo"]
    assert len(effect["y"]) == HORIZON
    assert any(effect["y"])


def test_a_network_without_a_place_for_holidays_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores, _ = write_stores(tmp_path)
    asked = ["forecast", str(stores), "--holidays", "DE", "--drop", "promo,heat,kind", "--horizon", "7"]
    assert main([*asked, "--model", "patchtst", "--out", str(tmp_path / "out")]) == 1
    assert "patchtst has no place for columns known in the future (public holidays)" in capsys.readouterr().err
