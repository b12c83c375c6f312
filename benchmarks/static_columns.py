"""What a column that describes the series is worth to a network: left out, as marks like any others, or embedded.

    python benchmarks/static_columns.py --out results/static_columns.csv

Shops of four kinds differ in their week alone, and the network sees three days of it, so that only the kind can tell
the other four.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import rearview as rv
from _rows import append, origin, show
from rearview.embed import Variates
from rearview.models.channel_hosts import _host

KINDS, SHOPS, ROWS, HORIZON = 4, 40, 140, 7


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        shops = make_shops(seed)
        for way in ("left out", "marks", "embedded"):
            rows.append(
                {"seed": seed, "way": way, "epochs": options.epochs, "mae": measure(shops, way, seed, options.epochs)}
            )
            show(rows[-1:])
    append(options.out, [{**row, **origin()} for row in rows])


def make_shops(seed: int) -> pd.DataFrame:
    """Rows of all shops, with noise of deviation 1 around the week of their kind."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("2024-01-01", periods=ROWS)
    weeks = 10 * rng.normal(size=(KINDS, 7))
    return pd.concat(
        pd.DataFrame(
            {
                "unique_id": f"shop{shop}",
                "ds": days,
                "y": 100 + weeks[shop % KINDS][days.dayofweek] + rng.normal(size=ROWS),
                "kind": f"kind{shop % KINDS}",
            }
        )
        for shop in range(SHOPS)
    )


def measure(shops: pd.DataFrame, way: str, seed: int, epochs: int) -> float:
    """The mean absolute error of the last week, forecast by iTransformer from three days."""
    last = shops.groupby("unique_id").tail(HORIZON)
    known = shops[~shops.ds.isin(last.ds)]
    # As marks like others, statics go through the map that all marks share.
    _host.Variates = partial(_common, Variates) if way == "marks" else Variates  # type: ignore[misc, assignment]
    forecaster = rv.Forecaster(
        model="itransformer",
        horizon=HORIZON,
        lookback=3,
        seed=seed,
        drop=["kind"] if way == "left out" else [],
        training={"epochs": epochs, "patience": epochs},
    ).fit(known)
    both = forecaster.predict().merge(last, on=["unique_id", "ds"])
    return round(float((both.itransformer - both.y).abs().mean()), 3)


def _common(variates: type[Variates], lookback: int, width: int, *, statics: int = 0, **sizes: int) -> Variates:
    """Tokens of all marks by one map."""
    return variates(lookback, width, **sizes)


if __name__ == "__main__":
    main()
