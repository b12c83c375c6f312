"""The weights that come with the package: their card, their forecasts of five small series, and that they are whole.

Run as a script, with new weights in the package, it stores their forecasts.
"""

import csv
import json
import math
import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

import rearview as rv
from rearview.models.patch_hosts.glance import Network
from rearview.pretrained import weights

STORED = Path(__file__).parent / "shipped_forecasts.json"
HORIZON = 6


def small_series() -> dict[str, list[float]]:
    """Five series that need no random numbers: a season that grows, a short one, counts, gaps, a large level."""
    month = [math.sin(2 * math.pi * n / 12) for n in range(120)]
    return {
        "seasonal": [(100 + 2 * n) * (1 + 0.2 * month[n]) for n in range(120)],
        "short": [3.0, 4.0, 6.0, 5.0, 7.0, 8.0, 10.0, 9.0, 11.0],
        "counts": [float((7 * n * n + 3 * n) % 5 if n % 3 else 0) for n in range(90)],
        "gaps": [math.nan if n % 11 == 4 else math.cos(n / 4) + n % 7 for n in range(300)],
        "large": [1e12 + 1e9 * math.sin(2 * math.pi * n / 24) for n in range(600)],
    }


def forecast(network: Network, values: list[float]) -> torch.Tensor:
    past = torch.tensor(values, dtype=torch.float64)[None, None]
    with torch.inference_mode():
        return network.forecast(past.nan_to_num(), past.isfinite(), HORIZON)[0, 0]


@pytest.fixture(scope="module")
def shipped() -> Network:
    return weights.load(weights.read_card())


def test_the_card_says_what_the_weights_are(shipped: Network) -> None:
    card = weights.read_card()
    assert card.parameters == sum(one.numel() for one in shipped.parameters())
    assert "no real series" in card.data
    assert card.licence == "Apache-2.0"
    assert card.kilowatt_hours > 0
    assert card.weaknesses
    assert card.size < 15_000_000


def test_the_cards_scores_are_those_of_the_latest_rows() -> None:
    latest: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    looks: Counter[tuple[str, str]] = Counter()
    for row in sorted(read_rows("gift"), key=lambda row: row["created"]):
        if re.fullmatch(r"glance-1(\.\d+)?", row["model"]):
            latest[row["tasks"]][row["task"]] = row
            looks[row["tasks"], row["task"]] += 1
    wanted: dict[str, float] = {}
    for kind, tasks in latest.items():
        for measure in ("mase", "crps"):
            logs = [np.log(float(row[measure]) / float(row[f"naive_{measure}"])) for row in tasks.values()]
            wanted[f"{kind}: relative {measure.upper()}, {len(tasks)} tasks"] = float(np.exp(np.mean(logs)))
    scores = weights.read_card().scores
    assert {name for name in scores if not name.endswith("looks")} == set(wanted)
    assert "test: relative CRPS, 29 tasks" in wanted
    for name, value in wanted.items():
        assert scores[name] == pytest.approx(value, abs=5e-5), name
    for kind in ("test", "practical"):
        assert scores[f"{kind}: looks"] == max(count for (of, _), count in looks.items() if of == kind)


def test_the_card_counts_every_look_at_the_tests() -> None:
    scores = weights.read_card().scores
    seen = Counter((row["arm"], row["tasks"], row["task"]) for row in read_rows("portfolio_tests"))
    seen.update(("auto", row["tasks"], row["task"]) for row in read_rows("gift") if row["model"] == "auto")
    for kind in ("test", "practical"):
        for arm, how in (("glance", "cut to 20 series and 4 windows"), ("auto", "as a member of auto")):
            most = max(count for (who, of, _), count in seen.items() if (who, of) == (arm, kind))
            assert scores[f"{kind}, {how}: looks"] == most, (kind, arm)


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of a file of the benchmarks."""
    with (Path(__file__).parents[2] / "results" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", list(small_series()))
def test_forecasts_are_the_stored_ones(shipped: Network, name: str) -> None:
    values = small_series()[name]
    wanted = np.array(json.loads(STORED.read_text(encoding="utf-8"))[name])
    made = forecast(shipped, values).numpy()
    # float32 sums differ between machines; what is compared is small beside how far the series swings.
    np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-4 * np.nanstd(values))


def test_forecasts_follow_scale_and_shift(shipped: Network) -> None:
    values = np.array(small_series()["seasonal"])
    plain = forecast(shipped, values.tolist())
    moved = forecast(shipped, (1e-3 * values - 7).tolist())
    torch.testing.assert_close((moved + 7) / 1e-3, plain, rtol=1e-4, atol=1e-4 * float(values.std()))


def test_a_season_is_forecast_as_it_goes_on(shipped: Network) -> None:
    values = small_series()["seasonal"]
    truth = [(100 + 2 * n) * (1 + 0.2 * math.sin(2 * math.pi * n / 12)) for n in range(120, 120 + HORIZON)]
    median = forecast(shipped, values)[:, shipped.median].numpy()
    assert np.abs(median - truth).mean() < 0.25 * np.abs(np.array(values[-12 : -12 + HORIZON]) - truth).mean()


def test_a_frame_is_forecast_without_training() -> None:
    pandas = pytest.importorskip("pandas")
    dates = pandas.date_range("2020-01-01", periods=120, freq="MS")
    made = rv.forecast(pandas.DataFrame({"date": dates, "sales": small_series()["seasonal"]}), HORIZON)
    assert len(made) == HORIZON
    assert np.isfinite(made["sales"]).all()


if __name__ == "__main__":
    network = weights.load(weights.read_card())
    stored = {name: np.round(forecast(network, one).tolist(), 9).tolist() for name, one in small_series().items()}
    STORED.write_text(json.dumps(stored, indent=0), encoding="utf-8")
