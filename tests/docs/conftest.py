"""The files that the guide speaks of."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the files that the guide uses."""
    monkeypatch.chdir(tmp_path)
    pd = pytest.importorskip("pandas")
    draw = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=300, freq="D")
    week = 2 * np.pi * np.arange(300) / 7
    noise = draw.normal(0, 1, (2, 300))
    columns = {"date": days, "north": 50 + 9 * np.sin(week) + noise[0], "south": 30 + 5 * np.cos(week) + noise[1]}
    pd.DataFrame(columns).to_csv("sales.csv", index=False)

    moments = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(draw.integers(0, 90 * 86_400, 700)), unit="s")
    orders = {"time": moments, "customer": draw.integers(100, 999, 700).astype(str), "amount": draw.gamma(2, 30, 700)}
    pd.DataFrame(orders).assign(customer=lambda frame: "c" + frame["customer"]).to_csv("orders.csv", index=False)

    series = []
    for name, level in (("a", 20), ("b", 40), ("c", 60)):
        promo = (draw.random(214) < 0.2).astype(int)
        y = level + 5 * np.sin(week[:214]) + 8 * promo + draw.normal(0, 1, 214)
        series.append(pd.DataFrame({"unique_id": name, "ds": days[:214], "y": y, "promo": promo}))
    pd.concat([one[:200] for one in series]).to_csv("stores.csv", index=False)
    pd.concat([one[200:].drop(columns="y") for one in series]).to_csv("promotions.csv", index=False)

    minutes = pd.date_range("2024-01-01", periods=900, freq="min")
    turns = 2 * np.pi * np.arange(900) / 30
    sensors = {"time": minutes, "load": np.sin(turns), "heat": np.cos(turns), "label": 0}
    rows = pd.DataFrame(sensors)
    rows[["load", "heat"]] += draw.normal(0, 0.05, (900, 2))
    rows.loc[800:815, "load"] += 3
    rows.loc[800:815, "label"] = 1
    rows[:600].to_csv("ordinary.csv", index=False)
    rows[600:].to_csv("today.csv", index=False)

    cases = []
    for case in range(40):
        x = np.sin(np.arange(24) / (2 if case % 2 else 4)) + draw.normal(0, 0.1, 24)
        cases.append(pd.DataFrame({"case": case, "t": range(24), "x": x, "label": "fast" if case % 2 else "slow"}))
    pd.concat(cases[:30]).to_csv("train.csv", index=False)
    pd.concat(cases[30:]).to_csv("test.csv", index=False)
    pd.concat(cases[30:]).drop(columns="label").to_csv("new.csv", index=False)
    return tmp_path
