"""A summary refuses what does not belong together, and knows its models and their lead."""

from dataclasses import replace

import numpy as np
import pytest

from rearview.core.errors import InputError
from rearview.report.forecast.page import ForecastSummary
from rearview.report.forecast.views import Forecast, Prediction


def test_models_stand_in_the_order_of_the_score_table(seven: ForecastSummary):
    assert seven.models == ("patchtst", "dlinear", "seasonal_naive")
    assert replace(seven, scores=seven.scores[::-1]).models == ("seasonal_naive", "dlinear", "patchtst")
    assert replace(seven, scores=()).models == seven.models


def test_the_lead_is_the_best_model_that_is_no_baseline(seven: ForecastSummary):
    better = replace(seven.scores[0], model="itransformer", mae=0.1)
    unscored = replace(seven.scores[0], model="broken", mae=float("nan"))
    naive = replace(seven.scores[2], mae=0.01)
    assert replace(seven, scores=(unscored, naive, *seven.scores, better)).lead is better
    assert replace(seven, scores=(naive,)).lead is naive
    assert replace(seven, scores=()).lead is None


def test_a_wide_file_has_columns_and_a_long_one_series(seven: ForecastSummary, odd: ForecastSummary):
    assert (seven.is_wide, odd.is_wide) == (True, False)
    words = [next(note for name, _, note in each.content().tiles if name == "Forecast") for each in (seven, odd)]
    assert words == ["1 hour, for 7 columns", "1, for 300 series"]


def test_no_series_is_refused(seven: ForecastSummary):
    with pytest.raises(InputError, match="at least one series"):
        replace(seven, series=())


def test_a_short_history_is_refused_by_name(seven: ForecastSummary):
    view = replace(seven.series[2], values=seven.series[2].values[:-1])
    with pytest.raises(InputError, match=r"the history of series 'MUFL'.*\(399,\) and \(400,\)"):
        replace(seven, series=(view,))


def test_a_bound_of_the_wrong_length_is_refused_by_name(seven: ForecastSummary):
    view = seven.series[1]
    mean = view.forecast.models["patchtst"].mean
    broken = Forecast(view.forecast.stamps, {"patchtst": Prediction(mean, {95.0: (mean, mean[1:])})})
    with pytest.raises(InputError, match=r"the 95 % interval in the forecast of series 'HULL' by 'patchtst'"):
        replace(seven, series=(replace(view, forecast=broken),))


def test_a_window_of_the_wrong_length_is_refused_by_number(seven: ForecastSummary):
    view = seven.series[0]
    window = replace(view.backtest[1], actual=view.backtest[1].actual[2:])
    with pytest.raises(InputError, match=r"the actual values in backtest window 2 of series 'HUFL'"):
        replace(seven, series=(replace(view, backtest=(view.backtest[0], window)),))


def test_mixed_kinds_of_time_are_refused(seven: ForecastSummary):
    view = replace(seven.series[0], stamps=np.arange(len(seven.series[0].stamps)))
    with pytest.raises(InputError, match="all datetime64 or all integers"):
        replace(seven, series=(view,))
