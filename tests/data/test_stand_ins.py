"""Stand-ins of wide benchmark sets: named so, of the real width, made alike every time, with something to learn."""

import numpy as np
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import catalogue, stand_ins
from rearview.data.datasets.borders import by_rule

WIDTHS = {
    "Electricity": 321, "Traffic": 862, "Solar": 137, "PEMS03": 358, "PEMS04": 307, "PEMS07": 883, "PEMS08": 170,
    "LOOP_SEATTLE_D": 323, "SOLAR_H": 137, "SOLAR_D": 137, "SOLAR_W": 137, "SIMGLUCOSE_5MIN": 30,
    "IOWA_IHOP_SMEX02_5MIN": 34, "IOWA_PLOWS_5MIN": 41,
}  # fmt: skip


def cells(of: str, rows: int, channels: int | None = None) -> np.ndarray:
    kind, start = stand_ins.SETS[of]
    dataset = catalogue.get(of)
    return stand_ins.cells(rows, channels or dataset.channels, dataset.step, kind, start)


def test_every_stand_in_has_the_shape_of_its_set_and_a_name_of_its_own():
    named = {name for name in catalogue.names() if catalogue.get(name).make}
    assert named == {f"{of}-standin" for of in WIDTHS}
    for of, width in WIDTHS.items():
        real, other = catalogue.get(of), catalogue.get(f"{of.lower()}_STANDIN")
        assert (other.channels, other.rows, other.step) == (width, real.rows, real.step)
        assert (other.horizons, other.calendar) == (real.horizons, real.calendar)
        lookback = min(96, 2 * real.horizons[0])
        assert catalogue.borders(other, lookback=lookback) == by_rule(real.rule, real.rows, lookback)
        assert (other.like, other.files, other.aliases, other.sha256) == (of, (), (), ())


def test_real_names_never_lead_to_a_stand_in(tmp_path):
    assert catalogue.available(tmp_path) == ()
    for of in WIDTHS:
        assert catalogue.get(of).make is None
        assert catalogue.find(f"{of}-standin", tmp_path) is None
        with pytest.raises(InputError, match=f"the file of {of}, was not found"):
            catalogue.load(of, tmp_path)


@pytest.mark.parametrize("of", WIDTHS)
def test_fewer_rows_are_the_first_of_more(of):
    short, long = cells(of, 701), cells(of, 2_900)  # the second is made in two parts
    np.testing.assert_array_equal(short, long[:701])
    assert short.shape == (701, WIDTHS[of])
    assert np.isfinite(long).all()
    assert long.min() >= 0
    assert (long.std(axis=0) > 0).all()


def test_a_few_rows_go_by_a_name_that_tells_them():
    few = catalogue.get("traffic-standin:700")
    assert (few.name, few.rows, few.channels, few.like) == ("Traffic-standin:700", 700, 862, "Traffic")
    panel = catalogue.load("Traffic-standin:700")
    assert panel.values.shape == (700, 862)
    np.testing.assert_allclose(panel.values + panel.centre, cells("Traffic", 700), atol=1e-6)
    assert panel.stamps[0] == np.datetime64("2016-07-01T02:00")
    assert "say nothing of Traffic" in panel.findings[0].message


@pytest.mark.parametrize("rows", ["0", "17545", "many", "-5", "1.5", ""])
def test_rows_that_a_stand_in_does_not_have_are_refused(rows):
    with pytest.raises(SettingsError, match="Traffic-standin has 17,544 rows"):
        catalogue.get(f"Traffic-standin:{rows}")


def test_a_published_set_is_taken_whole():
    with pytest.raises(SettingsError, match="ETTh1 is taken whole"):
        catalogue.get("ETTh1:500")


def test_days_repeat_nights_are_dark_and_weekends_quiet():
    hourly = cells("Traffic", 24 * 7 * 8)
    profile = hourly.reshape(-1, 24, WIDTHS["Traffic"]).mean(axis=0)
    assert (profile.max(axis=0) > 1.5 * profile.min(axis=0)).mean() > 0.95
    stamps = catalogue.load(f"Traffic-standin:{len(hourly)}").stamps
    weekend = (stamps.astype("datetime64[D]").astype(int) + 3) % 7 >= 5
    assert hourly[weekend].mean() < 0.9 * hourly[~weekend].mean()
    sun = cells("Solar", 144 * 3).reshape(3, 144, -1)
    assert (sun[:, :36] == 0).all()  # until six in the morning
    assert (sun[:, 72:84] > 0).mean() > 0.9


def test_neighbours_lead_one_another_by_their_lags():
    of, lag = "PEMS08", 7  # the second channel of a region is seven rows behind the first
    found = cells(of, 12 * 24 * 40)[:, :2]
    days = found.reshape(40, -1, 2)
    rest = (days - days.mean(axis=0)).reshape(-1, 2)
    ahead = [np.corrcoef(rest[:-15, 0], rest[k : len(rest) - 15 + k, 1])[0, 1] for k in range(15)]
    assert abs(int(np.argmax(ahead)) - lag) <= 2
    assert ahead[lag] > ahead[0]
