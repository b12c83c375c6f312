"""Fits in threads: each estimator gives what it gives alone, and the caller's random numbers stay theirs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

from rearview import Classifier, Detector, Forecaster

SMALL = {"settings": {"width": 8, "heads": 1, "depth": 1, "dropout": 0.3}, "training": {"epochs": 2}, "device": "cpu"}


def frame() -> pd.DataFrame:
    noise = np.random.default_rng(0).normal(size=(90, 2))
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=90), "a": noise[:, 0], "b": noise[:, 1]})


def forecast(seed: int) -> np.ndarray:
    model = Forecaster("patchtst", horizon=3, lookback=16, seed=seed, **SMALL)  # type: ignore[arg-type]
    return model.fit(frame()).predict().to_numpy()[:, 1:].astype(float)


def forecast_by_portfolio(seed: int) -> np.ndarray:
    model = Forecaster(horizon=3, seed=seed, device="cpu").fit(frame(), quick=True)
    return model.predict().to_numpy()[:, 1:].astype(float)


def detect(seed: int) -> np.ndarray:
    model = Detector(lookback=8, seed=seed, **SMALL).fit(frame())  # type: ignore[arg-type]
    return model.score(frame())["score"].to_numpy()


def detect_by_portfolio(seed: int) -> np.ndarray:
    return Detector(lookback=8, seed=seed, device="cpu").fit(frame()).score(frame())["score"].to_numpy()


def classify(seed: int) -> np.ndarray:
    cases = np.random.default_rng(1).normal(size=(24, 2, 12))
    model = Classifier(seed=seed, **SMALL).fit(cases, np.arange(24) % 2)  # type: ignore[arg-type]
    return model.predict_proba(cases)


def classify_by_portfolio(seed: int) -> np.ndarray:
    cases = np.random.default_rng(1).normal(size=(24, 2, 12))
    return Classifier(seed=seed, device="cpu").fit(cases, np.arange(24) % 2).predict_proba(cases)


FITS = [forecast, detect, classify]
PORTFOLIOS = [forecast_by_portfolio, detect_by_portfolio, classify_by_portfolio]


@pytest.mark.parametrize("fit", [*FITS, *(pytest.param(one, marks=pytest.mark.slow) for one in PORTFOLIOS)])
def test_two_fits_in_threads_give_what_each_gives_alone(fit: Callable[[int], np.ndarray]) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1:3]  # noqa: NPY002
    alone = [fit(seed) for seed in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(fit, (0, 1)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_equal(np.random.get_state()[1:3], before[1])  # noqa: NPY002
    if fit in FITS:
        assert (alone[0] != alone[1]).any()
