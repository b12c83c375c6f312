"""What-if: a change of known inputs, as a file or by name, in Python, on the command line and on a page."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.cli import main
from rearview.core.errors import InputError, SettingsError

HORIZON = 6
DAYS = pd.date_range("2024-01-01", periods=140)


def sales() -> pd.DataFrame:
    rng, steps = np.random.default_rng(0), np.arange(140)
    promo, kind = (rng.random(140) < 0.2).astype(int), np.array(["none", "flyer"])[(rng.random(140) < 0.15).astype(int)]
    y = (100 + 10 * np.sin(2 * np.pi * steps / 7)) * (1 + 0.5 * promo) * np.where(kind == "flyer", 1.3, 1)
    return pd.DataFrame({"date": DAYS, "sales": y + rng.normal(0, 1, 140), "promo": promo, "kind": kind})


def plan(promo: int = 1, kind: str = "none") -> pd.DataFrame:
    return pd.DataFrame({"date": pd.date_range("2024-05-20", periods=HORIZON), "promo": promo, "kind": kind})


@pytest.fixture(scope="module")
def forecaster() -> Forecaster:
    return Forecaster(horizon=HORIZON, known=["promo", "kind"], model="ridge").fit(sales())


def test_the_difference_is_that_of_two_forecasts(forecaster: Forecaster) -> None:
    made = forecaster.what_if(plan(promo=0), future=plan())
    assert list(made) == ["date", "sales", "sales-changed", "sales-difference"]
    np.testing.assert_allclose(made["sales"], forecaster.predict(future=plan())["sales"])
    np.testing.assert_allclose(made["sales-changed"], forecaster.predict(future=plan(promo=0))["sales"])
    np.testing.assert_allclose(made["sales-difference"], made["sales-changed"] - made["sales"])
    np.testing.assert_allclose(made["sales-changed"] / made["sales"], 1 / 1.5, rtol=0.03)


def test_inputs_are_changed_by_name_too(forecaster: Forecaster) -> None:
    by_file = forecaster.what_if(plan(promo=0, kind="flyer"), future=plan())
    by_name = forecaster.what_if({"promo": 0, "kind": "flyer"}, future=plan())
    pd.testing.assert_frame_equal(by_name, by_file)
    pd.testing.assert_frame_equal(
        forecaster.what_if({"kind": "none"}, future=plan()), forecaster.what_if(plan(), future=plan())
    )
    pd.testing.assert_frame_equal(
        forecaster.what_if({"promo": 0}, sales(), future=plan()),
        forecaster.what_if({"promo": 0}, future=plan()),
        rtol=1e-5,
    )


def test_what_can_not_be_changed_is_refused(forecaster: Forecaster) -> None:
    with pytest.raises(SettingsError, match=r"'price' is no input known in the future, .* promo, kind can"):
        forecaster.what_if({"price": 1}, future=plan())
    with pytest.raises(SettingsError, match=r"kind has no category 'flier'. Did you mean 'flyer'\?"):
        forecaster.what_if({"kind": "flier"}, future=plan())
    with pytest.raises(SettingsError, match="promo is set to 'yes', which is no number"):
        forecaster.what_if({"promo": "yes"}, future=plan())
    with pytest.raises(InputError, match="give their next 6 steps as future"):
        forecaster.what_if({"promo": 0})
    blind = Forecaster(horizon=3, target="sales", drop=["promo", "kind"], model="ridge").fit(sales())
    with pytest.raises(SettingsError, match="No input is known in the future"):
        blind.what_if({"promo": 0})


def test_series_taken_together_are_changed_as_one() -> None:
    parts = [sales().rename(columns={"date": "ds", "sales": "y"}).assign(unique_id=name) for name in "ab"]
    frame = pd.concat(parts)
    ahead = pd.concat([plan().rename(columns={"date": "ds"}).assign(unique_id=name) for name in "ab"])
    joined = Forecaster(horizon=HORIZON, known=["promo", "kind"], model="ridge", together=True).fit(frame)
    made = joined.what_if({"promo": 0, "kind": "flyer"}, future=ahead)
    assert list(made) == ["unique_id", "ds", "planned", "changed", "difference"]
    ratio = (made["changed"] / made["planned"]).to_numpy()
    np.testing.assert_allclose(ratio, 1.3 / 1.5, rtol=0.05)


def test_the_command_writes_and_draws_the_difference(
    forecaster: Forecaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forecaster.save(tmp_path / "model")
    files = {"rows": sales(), "plan": plan(), "other": plan(promo=0)}
    for name, frame in files.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    rows, planned, other, page = (str(tmp_path / name) for name in ("rows.csv", "plan.csv", "other.csv", "page.html"))
    common = ["predict", str(tmp_path / "model"), rows, "--future", planned]
    assert main([*common, "--what-if", other, "--page", page]) == 0
    by_file = capsys.readouterr()
    assert by_file.out.splitlines()[0] == "unique_id,ds,planned,changed,difference"
    assert re.search(r"With promo at 0, .* over the next 6 days instead of [\d,]+: 300 less \(−33\.\d %\)", by_file.err)
    assert main([*common, "--what-if", "promo=0"]) == 0
    assert capsys.readouterr().out == by_file.out
    drawn = Path(page).read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="report-data"[^>]*>(.*?)</script>', drawn, re.S)[1])
    assert data["models"] == ["planned", "changed"]
    assert [one["name"] for one in data["series"][0]["inputs"]] == ["promo, planned", "promo, changed"]
    assert max(data["series"][0]["parts"][0]["y"]) < -30
    assert '<h2 id="parts-title">Difference</h2>' in drawn
    assert main([*common, "--page", page]) == 1
    assert "name the change with what_if (--what-if)" in capsys.readouterr().err
