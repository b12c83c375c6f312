"""The catalogue of benchmark sets: names, borders as published, finding, reading, checking, joining."""

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import catalogue, readers
from rearview.data.datasets.borders import Borders
from rearview.data.datasets.catalogue import Dataset
from rearview.data.step import Step

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "protocol.npz", allow_pickle=False)
RULES = {
    "ETTh1": "ett_hourly",
    "ETTm1": "ett_quarter_hourly",
    "tslib/custom": "custom",
    "solar": "solar",
    "pems": "pems",
}
SMALL = Dataset("Small", ("small.csv",), rows=5, channels=2, step=Step(1, "h"), rule="custom", source="our own desk")
SMALL_CSV = "date,a,OT\n" + "".join(
    f"2020-01-01 0{hour}:00:00,{hour},{-9999 if hour == 2 else 7}\n" for hour in range(5)
)


@pytest.fixture
def shelf(monkeypatch):
    """A catalogue that forgets what the test registers."""
    monkeypatch.setattr(catalogue, "_SHELF", dict(catalogue._SHELF))


PUBLISHED = [catalogue.get(name) for name in catalogue.names() if not catalogue.get(name).make]


def test_every_published_set_says_where_its_file_comes_from_and_leaves_rows_to_test():
    assert len(PUBLISHED) == 33
    for dataset in PUBLISHED:
        assert dataset.files
        assert any(place in dataset.source for place in ("GitHub", "Hugging Face", "data archive"))
        assert all(len(known) == 64 for known in dataset.sha256)
        first, last = catalogue.borders(dataset, lookback=min(dataset.horizons)).test
        assert last - first >= 2 * min(dataset.horizons)


@pytest.mark.parametrize(
    ("spelling", "name"),
    {
        "etth1": "ETTh1",
        "ECL": "Electricity",
        "ELECTRICITY": "Electricity",
        "national_illness": "ILI",
        "Illness": "ILI",
        "exchange_rate": "Exchange",
        "solar-energy": "Solar",
        "weather_repaired": "Weather-repaired",
        "pems8": "PEMS08",
        "PEMSD4": "PEMS04",
    }.items(),
)
def test_names_are_read_in_any_case_and_by_alias(spelling, name):
    assert catalogue.get(spelling).name == name


def test_an_unknown_name_names_its_neighbour_and_the_rest():
    with pytest.raises(SettingsError, match=r"no data set 'ETTx1'.*ETTh1, ETTh2.*Did you mean 'ETT[hm]1'"):
        catalogue.get("ETTx1")


def test_a_set_of_labelled_anomalies_names_its_command():
    with pytest.raises(SettingsError, match=r"SMD is a set of labelled anomalies.*SMD\.npz.*`rearview detect`"):
        catalogue.get("smd")


def test_horizons_and_calendar_follow_the_field():
    assert catalogue.get("ETTm1").horizons == (96, 192, 336, 720)
    assert catalogue.get("ILI").horizons == (24, 36, 48, 60)
    assert catalogue.get("PEMS07").horizons == (12, 24, 48, 96)
    assert all(catalogue.get(name).calendar is None for name in ("Solar", "PEMS03", "ETT1_H"))
    assert {catalogue.get(name).calendar for name in ("ETTm1", "Weather", "ILI")} == {"h"}


GOLDEN_BORDERS = [key for key in GOLDEN.files if key.startswith("output_borders/")]


def test_no_published_border_is_left_out():
    assert len(GOLDEN_BORDERS) == 13


@pytest.mark.parametrize("key", GOLDEN_BORDERS)
def test_borders_are_the_published_ones(key):
    rule = next(rule for part, rule in RULES.items() if part in key)
    for lookback, _, split, rows, first, last, _, first_target, _ in GOLDEN[key].tolist():
        found = catalogue.borders(rule, rows, lookback)
        part = (found.train, found.validation, found.test)[split]
        assert part == (first, last)
        assert part[0] + lookback == first_target


def test_borders_by_name_know_their_rows():
    assert catalogue.borders("etth1", lookback=336) == Borders((0, 8640), (8304, 11520), (11184, 14400))
    assert catalogue.borders(catalogue.get("PEMS03"), lookback=96).validation == (15724, 20966)
    assert catalogue.borders("weather", rows=1000, lookback=10).test == (790, 1000)


def test_a_rule_of_ones_own_is_a_function():
    def halves(rows: int, lookback: int) -> Borders:
        return Borders((0, rows // 2), (rows // 2, 3 * rows // 4), (3 * rows // 4, rows))

    assert catalogue.borders(halves, rows=80, lookback=4).test == (60, 80)
    assert catalogue.borders(replace(SMALL, rule=halves), rows=40, lookback=4).train == (0, 20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ETTh1", 14_399, 96), "need 20 months .14,400 rows.*14,399"),
        (("custom", 100, 90), "lookback of 90 leaves no target row in the train"),
        (("pems", 100, 20), "lookback of 20 leaves no target row in the validation part .rows 60 to 80 of 100"),
        (("custom", 100, 0), "lookback is 0"),
        (("custom", None, 10), "needs the number of rows"),
        (("costum", 100, 10), "no data set 'costum'"),
        ((replace(SMALL, rule="costum"), 100, 10), "no border rule 'costum'.*Did you mean 'custom'"),
    ],
)
def test_borders_that_can_not_be_drawn_are_refused(arguments, message):
    with pytest.raises(SettingsError, match=message):
        catalogue.borders(*arguments)


def test_files_are_found_in_any_case_two_levels_down_and_the_upper_wins(tmp_path):
    for place in ("deep/er/WEATHER.csv", "ETT-small/ETTh1.csv", "ETTh1.csv", "too/deep/by/far/ETTm1.csv"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("date,a\n")
    assert catalogue.find("Weather", tmp_path) == tmp_path / "deep/er/WEATHER.csv"
    assert catalogue.find("etth1", str(tmp_path)) == tmp_path / "ETTh1.csv"
    assert catalogue.available(tmp_path) == ("ETTh1", "Weather", "Weather-repaired")
    with pytest.raises(InputError, match=r"ETTm1\.csv"):
        catalogue.find("ETTm1", tmp_path)


def test_the_folder_is_the_one_given_then_the_variable_then_data(tmp_path, monkeypatch):
    given, named, default = (tmp_path / name for name in ("given", "named", "data"))
    for folder in (given, named, default):
        folder.mkdir()
        (folder / "ETTh2.csv").write_text("date,a\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REARVIEW_DATA", str(named))
    assert catalogue.find("ETTh2", given).parent == given
    assert catalogue.find("ETTh2").parent == named
    monkeypatch.delenv("REARVIEW_DATA")
    assert catalogue.find("ETTh2").resolve().parent == default


def test_a_missing_file_says_which_where_and_whence(tmp_path, monkeypatch):
    with pytest.raises(InputError) as refused:
        catalogue.find("Solar", tmp_path)
    for part in ("solar_AL.txt", str(tmp_path), "laiguokun/multivariate-time-series-data", "REARVIEW_DATA"):
        assert part in str(refused.value)
    monkeypatch.setenv("REARVIEW_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"nowhere \(named by REARVIEW_DATA\) is no folder"):
        catalogue.find("ETTh1")
    assert catalogue.available() == ()


def test_a_csv_is_taken_row_by_row(tmp_path):
    (tmp_path / "small.csv").write_text(SMALL_CSV)
    panel = catalogue.load(SMALL, tmp_path)
    assert panel.columns == ("a", "OT")
    assert panel.step == Step(1, "h")
    np.testing.assert_allclose(panel.original(slice(None), 0)[:, 1], [7, 7, -9999, 7, 7], atol=1e-3)


def test_a_file_of_another_shape_than_its_data_set_is_refused(tmp_path):
    (tmp_path / "small.csv").write_text(SMALL_CSV)
    with pytest.raises(InputError, match=r"small\.csv gives 5 rows of 2 channels, but Small has 6 rows of 2"):
        catalogue.load(replace(SMALL, rows=6), tmp_path)


def test_a_file_of_another_checksum_is_a_warning(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text(SMALL_CSV)
    good = replace(SMALL, sha256=("0" * 64, catalogue.checksum(path)))
    assert not [finding for finding in catalogue.load(good, tmp_path).findings if finding.kind == "warning"]
    (warning,) = [
        f for f in catalogue.load(replace(good, sha256=("0" * 64,)), tmp_path).findings if f.kind == "warning"
    ]
    assert warning.what == "checksum"
    assert "small.csv" in warning.message


def test_a_set_of_ones_own_joins_under_a_free_name(shelf, tmp_path):
    (tmp_path / "small.csv").write_text(SMALL_CSV)
    catalogue.register(SMALL)
    assert catalogue.names()[-1] == "Small"
    assert catalogue.available(tmp_path) == ("Small",)
    assert catalogue.load("SMALL", tmp_path).values.shape == (5, 2)
    with pytest.raises(SettingsError, match="ecl already stands for Electricity"):
        catalogue.register(replace(SMALL, name="Mine", aliases=("ECL",)))
    with pytest.raises(SettingsError, match="small already stands for Small"):
        catalogue.register(SMALL)


SOLAR = replace(
    catalogue.get("Solar"), name="Sunny", aliases=(), rows=7, channels=3, files=("sunny.txt", "sunny.txt.gz")
)


@pytest.mark.parametrize("packed", [False, True])
def test_text_without_dates_gets_made_up_stamps_and_says_so(tmp_path, packed):
    cells = np.random.default_rng(1).uniform(0, 90, (7, 3)).round(2)
    lines = "\n".join(",".join(map(str, row)) for row in cells).encode()
    (tmp_path / ("sunny.txt.gz" if packed else "sunny.txt")).write_bytes(gzip.compress(lines) if packed else lines)
    panel = catalogue.load(SOLAR, tmp_path)
    np.testing.assert_allclose(panel.original(slice(None), 0), cells, atol=1e-5)
    assert panel.stamps[:2].tolist() == np.array(["2006-01-01T00:00", "2006-01-01T00:10"], "datetime64[us]").tolist()
    assert panel.observed is None
    (made_up,) = [finding for finding in panel.findings if finding.what == "stamps"]
    assert "no dates" in made_up.message
    assert "2006-01-01" in made_up.message


PEMS = replace(catalogue.get("PEMS04"), name="Jam", aliases=(), rows=11, channels=3, files=("jam.npz",))


def test_an_array_gives_its_first_feature_with_gaps_filled_and_masked(tmp_path):
    cells = np.random.default_rng(2).uniform(0, 300, (11, 3, 2))
    cells[0, 1, 0] = cells[4:6, 2, 0] = np.nan
    cells[:, :, 1] = -1
    np.savez(tmp_path / "jam.npz", data=cells)
    panel = catalogue.load(PEMS, tmp_path)
    np.testing.assert_allclose(panel.original(slice(None), 0), cells[:, :, 0], rtol=1e-5)
    np.testing.assert_array_equal(panel.observed, ~np.isnan(cells[:, :, 0]))
    assert panel.values[0, 1] == 0
    assert panel.values[5, 2] == panel.values[4, 2] == panel.values[3, 2]
    assert panel.first.tolist() == [[0, 1, 0]]
    assert [finding.count for finding in panel.findings if finding.what == "missing"] == [3]
    assert panel.stamps[-1] == np.datetime64("2018-01-01T00:50")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"1,2\n3,x\n", "comma-separated numbers"), (b"1,2\n3,inf\n", "infinite value in row 2, column 2")],
)
def test_text_that_is_not_numbers_is_refused(tmp_path, content, message):
    (tmp_path / "sunny.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        readers.read_undated_text(tmp_path / "sunny.txt", Step(10, "min"), start="2006-01-01")


def test_arrays_that_are_not_pems_are_refused(tmp_path):
    read = partial(readers.read_undated_npz, step=Step(5, "min"), start="2018-01-01")
    (tmp_path / "junk.npz").write_bytes(b"PK junk")
    np.savez(tmp_path / "flat.npz", data=np.ones((5, 2)))
    np.savez(tmp_path / "named.npz", speed=np.ones((5, 2, 1)))
    for name, message in (("junk", "can't be read"), ("flat", r"shape \(5, 2\)"), ("named", "it holds speed")):
        with pytest.raises(InputError, match=message):
            read(tmp_path / f"{name}.npz")


@pytest.mark.parametrize("name", ["ETTh1", "ETTh2", "ETTm1", "Weather", "ILI"])
def test_real_files_are_the_published_ones(real_data, name):
    panel = catalogue.load(name, real_data)
    assert panel.values.shape == (catalogue.get(name).rows, catalogue.get(name).channels)
    assert panel.step == catalogue.get(name).step
    assert not [finding for finding in panel.findings if finding.what == "checksum"]


def test_published_weather_keeps_its_sentinels_and_the_repaired_one_mends_them(real_data):
    published, mended = catalogue.load("Weather", real_data), catalogue.load("Weather-repaired", real_data)
    assert np.isclose(published.original(slice(None), 0), -9999, atol=0.01).sum() == 81
    assert published.observed is None
    cells = mended.original(slice(None), 0)
    assert np.nanmin(cells) > -200
    assert np.isnan(cells).sum() == 81 + 9 * 21
    assert np.all(np.diff(mended.stamps) == np.timedelta64(10, "m"))


def test_a_standardised_etth1_is_the_published_one(real_data):
    panel = catalogue.load("ETTh1", real_data)
    first, last = catalogue.borders("ETTh1", lookback=96).train
    train = panel.original(slice(first, last), 0)
    np.testing.assert_allclose(train.mean(axis=0), GOLDEN["output_scaler/ETTh1/mean"], rtol=1e-6)
    np.testing.assert_allclose(train.std(axis=0), GOLDEN["output_scaler/ETTh1/scale"], rtol=1e-6)


def test_gift_short_takes_a_tenth_in_whole_horizons():
    # 17,420 rows: a tenth is 36.3 horizons of 48, of which 20 are taken; 725 days: 2.4 horizons of 30, so 3.
    assert catalogue.borders("ETT1_H", lookback=96) == Borders((0, 16412), (16316, 16460), (16364, 17420))
    assert catalogue.borders("ETT1_D", lookback=60) == Borders((0, 605), (545, 635), (575, 725))


def test_days_are_means_of_their_hours(tmp_path):
    hours = np.arange(24 * 3 + 5)
    days = [f"2020-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in hours]
    lines = [f"{day},{hour},{'' if hour == 30 else 2 * hour}" for day, hour in zip(days, hours, strict=True)]
    (tmp_path / "hourly.csv").write_text("date,a,b\n" + "\n".join(lines) + "\n")
    panel = readers.gift_reader("hourly.csv", Step(1, "D"))(tmp_path / "hourly.csv", Step(1, "D"))
    means = panel.original(slice(None), 0)
    without = np.delete(2 * hours[24:48], 6).mean()
    np.testing.assert_allclose(means, [[11.5, 23], [35.5, without], [59.5, 119]], rtol=1e-6)
    assert panel.stamps[1] == np.datetime64("2020-01-02")
    assert any(finding.what == "averaged" for finding in panel.findings)


def test_hours_of_ett_are_sums_of_their_quarters(tmp_path):
    quarters = np.arange(4 * 3 + 2)
    lines = [f"2020-01-01 {at // 4:02d}:{15 * (at % 4):02d}:00,{at},{'' if at == 5 else at}" for at in quarters]
    (tmp_path / "ETTm1.csv").write_text("date,a,b\n" + "\n".join(lines) + "\n")
    panel = readers.gift_reader("ETTm1.csv", Step(1, "h"))(tmp_path / "ETTm1.csv", Step(1, "h"))
    # The hour with a gap is four times the mean of the three quarters that are there.
    np.testing.assert_allclose(panel.original(slice(None), 0), [[6, 6], [22, 4 * 17 / 3], [38, 38]], rtol=1e-6)
    assert str(panel.step) == str(Step(1, "h"))


def test_solar_is_summed_and_its_hours_begin_with_the_year(tmp_path):
    path = tmp_path / "solar_AL.txt"
    cells = np.arange(6 * 24 * 8 * 2).reshape(-1, 2) % 97  # eight days
    np.savetxt(path, cells, fmt="%d", delimiter=",")
    for step, rows in ((Step(1, "h"), 6), (Step(1, "D"), 144), (Step(1, "W"), 1008)):
        panel = readers.gift_reader(path.name, step)(path, step)
        whole = len(cells) // rows
        sums = cells[: whole * rows].reshape(whole, rows, 2).sum(1)
        np.testing.assert_allclose(panel.original(slice(None), 0), sums, rtol=1e-5)
        assert panel.stamps[0] == np.datetime64("2006-01-01")
        assert str(panel.step) == str(step)


def test_minutes_are_gathered_by_fives_whatever_the_file_has(tmp_path):
    minutes = np.arange(25)
    stamps = [f"2002-05-13 00:{at:02d}:00" for at in minutes]
    path = tmp_path / "iowa_ihop_smex02.csv"
    path.write_text("date,a,b\n" + "\n".join(f"{at},{n},{2 * n}" for at, n in zip(stamps, minutes, strict=True)) + "\n")
    panel = readers.read_gathered(path, Step(5, "min"))
    np.testing.assert_allclose(panel.original(slice(None), 0)[:, 0], [2, 7, 12, 17, 22], rtol=1e-6)
    assert readers.read_gathered(path, Step(1, "min")).values.shape == (25, 2)
    with pytest.raises(InputError, match=r"has rows every minute, which do not make up rows every 90 seconds"):
        readers.read_gathered(path, Step(90, "s"))


def test_the_sets_that_mica_made_have_a_tenth_each_to_select_and_to_test():
    for name, tenth in (("SIMGLUCOSE_5MIN", 2592), ("IOWA_IHOP_SMEX02_5MIN", 2304), ("IOWA_PLOWS_5MIN", 3744)):
        dataset = catalogue.get(name)
        borders = catalogue.borders(name, lookback=2 * dataset.horizons[0])
        assert borders.test[1] == dataset.rows == 10 * tenth
        assert borders.train == (0, 8 * tenth)
        assert borders.validation[1] - borders.train[1] == tenth


@pytest.mark.parametrize(
    ("name", "test_rows"), [("SOLAR_H", 912), ("SOLAR_D", 60), ("SOLAR_W", 8), ("LOOP_SEATTLE_D", 60)]
)
def test_gift_sets_have_the_test_rows_that_mica_prints(name, test_rows):
    horizon = catalogue.get(name).horizons[0]
    first, last = catalogue.borders(name, lookback=2 * horizon).test
    assert last - first - 2 * horizon == test_rows


def test_summed_quarters_have_errors_of_the_size_that_mica_prints(real_data):
    panel = catalogue.load("ETT1_H", real_data)
    hours = panel.original(slice(None), 0)
    (first, last), horizon, day = catalogue.borders("ETT1_H", lookback=96).test, 48, 24
    errors = [
        np.abs(hours[at : at + horizon] - np.tile(hours[at - day : at], (2, 1))).mean()
        for at in range(first + 96, last - horizon + 1)
    ]
    # The networks of its table 2 have 5.3 to 6.3 there; on hourly ETTh1 this forecast has 1.6.
    assert 5.5 < np.mean(errors) < 6.5
