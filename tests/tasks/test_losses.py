"""Losses by name and settings: what is asked for is what is built, and what there is none of is refused."""

from typing import Any

import numpy as np
import pytest

from rearview.core.errors import SettingsError
from rearview.tasks import losses
from rearview.tasks.objectives import Forecast

SHARE = {"name": "fredf", "time_share": 0.3}


@pytest.mark.parametrize("name", losses.KINDS)
def test_a_name_alone_has_the_defaults(name: str) -> None:
    assert losses.resolve(name) == losses.resolve({"name": name}) == (name, losses.KINDS[name]())
    assert losses.simplify(name) == losses.simplify({"name": name}) == name


def test_settings_reach_the_task() -> None:
    assert Forecast(5, SHARE).settings == losses.Fredf(time_share=0.3)
    assert Forecast(5, {"name": "huber", "delta": 2}).settings == losses.Huber(delta=2)


def test_what_is_chosen_leaves_defaults_out_and_is_one_however_it_is_spelt() -> None:
    assert losses.simplify({"name": "fredf", "time_share": 0.5}) == "fredf"
    for spelt in (SHARE, {"loss": "fredf", "time_share": 0.3}, {"time_share": np.float64(0.3), "name": "fredf"}):
        assert losses.simplify(spelt) == SHARE
    assert repr(losses.simplify({"name": "fredf", "time_share": 1})) == "{'name': 'fredf', 'time_share': 1.0}"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("fred", r"loss is 'fred'; it can be one of mse, mae, huber, fredf, window_mae\. Did you mean 'fredf'\?"),
        ({"name": "fredf", "share": 0.3}, r"fredf has no setting 'share'\. Did you mean 'time_share'\?"),
        ({"name": "mse", "time_share": 0.3}, r"mse has no setting 'time_share'\. It has none\."),
        ({"name": "huber", "time_share": 0.3}, r"huber has no setting 'time_share'\. It has: delta\."),
        ({"name": "fredf", "time_share": 1.2}, r"time_share is 1\.2; fredf's share of squared errors lies in 0 to 1"),
        ({"name": "fredf", "time_share": "half"}, r"fredf: time_share is 'half'; it must be a number"),
        ({"name": "fredf", "time_share": True}, r"fredf: time_share is True; it must be a number"),
        ({"name": "huber", "delta": 0}, r"delta is 0; the error from which"),
        ({"time_share": 0.3}, r"A loss given as a mapping needs a 'name'; got the keys time_share"),
        ({"name": "mae", "loss": "mse"}, r"mae has no setting 'loss'"),
        (0.3, r"A loss is a name, such as 'mse', or a mapping with a name and settings, not 0\.3"),
    ],
)
def test_what_there_is_none_of_is_refused_in_a_sentence(spec: Any, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        losses.resolve(spec)
