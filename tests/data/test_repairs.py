"""Repairs of messy files one by one: what has one reading is read so, what has two is refused with its flag."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.infer.problems import MessyData, Repair
from rearview.data.infer.timestamps import localise
from rearview.data.panel import Panel
from rearview.data.panel_reader import load

DAYS = pd.date_range("2020-01-01", periods=30).strftime("%Y-%m-%d").tolist()
MONTHS = pd.date_range("2012-01-01", periods=30, freq="MS")


def written(folder: Path, *lines: str) -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def daily(folder: Path, cells: list[str], *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Path:
    """A column of cells, one a day."""
    rows = [f"{day},{cell}" for day, cell in zip(DAYS, cells, strict=False)]
    return written(folder, "date,v", *before, *rows, *after)


def values(panel: Panel) -> list[float]:
    return panel.original(slice(None), 0)[:, 0].round(3).tolist()


def repair(panel: Panel, what: str) -> Repair:
    (one,) = [finding for finding in panel.findings if isinstance(finding, Repair) and finding.what == what]
    return one


NUMBERS = [str(number) for number in range(100, 130)]


@pytest.mark.parametrize(
    ("before", "after", "what", "place"),
    [
        ((",kW",), (), "units", "line 2"),
        (("yyyy-mm-dd,[EUR]",), (), "units", "line 2"),
        ((), ("Total,3435",), "total", "line 32"),
        ((), (",3435",), "total", "line 32"),
        ((), ("Grand total:,3435",), "total", "line 32"),
        ((), ("Source: the office",), "remark", "line 32"),
    ],
)
def test_rows_that_are_no_observations_are_left_out(
    before: tuple[str, ...], after: tuple[str, ...], what: str, place: str, tmp_path: Path
) -> None:
    panel = load(daily(tmp_path, NUMBERS, before=before, after=after))
    assert values(panel) == [float(number) for number in NUMBERS]
    assert (repair(panel, what).place, repair(panel, what).count) == (place, 1)


def test_a_last_row_without_a_stamp_that_is_no_sum_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(MessyData, match="line 32, column 'date': the stamp is missing"):
        load(daily(tmp_path, NUMBERS, after=(",77",)))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (['"12,183.39"', "7.5"], [12183.39, 7.5]),
        (['"12.183,39"', '"7,5"'], [12183.39, 7.5]),
        (['"12,183.39"', '"12.183,39"', "980"], [12183.39, 12183.39, 980.0]),
        (['"$5,156"', "$980.50"], [5156.0, 980.5]),
        (["53.6%", "7%"], [53.6, 7.0]),
        (['"(1,200)"', '"1,300"'], [-1200.0, 1300.0]),
        (['"1,001,200"', '"5,156"'], [1_001_200.0, 5156.0]),
        (['"5,156"', "980"], [5156.0, 980.0]),
        (["1 200 000", "7"], [1_200_000.0, 7.0]),
        (["€ 12.50", "€ 7"], [12.5, 7.0]),
        (["-$3.20", "$(4)"[1:]], [-3.2, -4.0]),
    ],
)
def test_numbers_with_signs_and_marks_are_read(cells: list[str], expected: list[float], tmp_path: Path) -> None:
    panel = load(daily(tmp_path, cells * 5))
    assert values(panel) == expected * 5
    told = repair(panel, "notation")
    assert (told.column, told.place, told.value) == ("v", "line 2", cells[0].strip('"'))


@pytest.mark.parametrize(
    ("cells", "flag"),
    [
        (['"5,156"', '"7,300"'], "--decimal point"),
        (["5.156 €", "7.300 €"], "--decimal comma"),
        (["53.6%", "0.5"], None),
    ],
)
def test_numbers_in_two_readings_are_refused_with_the_flag_that_settles_them(
    cells: list[str], flag: str | None, tmp_path: Path
) -> None:
    path = daily(tmp_path, cells * 5)
    with pytest.raises(MessyData) as refusal:
        load(path)
    flags = {problem.flag for problem in refusal.value.problems}
    assert flags in ({"--decimal point"}, {"--decimal comma"}) if flag else flags == {None}
    if flag is not None:
        point, comma = (values(load(path, decimal=mark))[0] for mark in ("point", "comma"))
        assert sorted((point, comma)) == [5.156, 5156.0]


def test_words_for_missing_values_can_be_named(tmp_path: Path) -> None:
    path = daily(tmp_path, ["closed", *NUMBERS[:10], "n.v."])
    with pytest.raises(MessyData) as refusal:
        load(path)
    assert [problem.flag for problem in refusal.value.problems] == ["--missing closed", "--missing n.v."]
    panel = load(path, missing=["Closed", "n.v."])
    assert np.isnan(panel.original(slice(None), 0)[[0, -1], 0]).all()


@pytest.mark.parametrize(("how", "joined"), [("mean", 12.0), ("sum", 24.0), ("first", 10.0), ("last", 14.0)])
def test_two_values_of_one_stamp_become_one_as_said(how: str, joined: float, tmp_path: Path) -> None:
    path = daily(tmp_path, ["9", "10", "11", *NUMBERS[:5]], after=(f"{DAYS[1]},14", f"{DAYS[1]},"))
    with pytest.raises(MessyData, match=r"2020-01-02 stands twice.*--duplicates") as refusal:
        load(path)
    assert refusal.value.problems[0].flag == "--duplicates mean"
    panel = load(path, duplicates=how)  # type: ignore[arg-type]
    assert values(panel)[:3] == [9.0, joined, 11.0]
    assert repair(panel, "joined").count == 2


@pytest.mark.parametrize(
    "shape", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%b-%Y", "%b-%y", "%B %Y", "%d %b %Y", "%b %d, %Y", "%Y-%b"]
)
def test_months_are_read_however_they_are_written_and_given_back_so(shape: str, tmp_path: Path) -> None:
    lines = [f'"{month:{shape}}",{number}' for number, month in enumerate(MONTHS)]
    panel = load(written(tmp_path, "when,v", *lines))
    np.testing.assert_array_equal(panel.stamps, MONTHS.to_numpy().astype("datetime64[us]"))
    assert str(panel.step) == "MS"
    assert localise(panel.stamps[:2], panel.layout).tolist() == [f"{month:{shape}}" for month in MONTHS[:2]]


def test_day_and_month_in_either_order_are_settled_by_a_flag_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "when,v", *(f"{month:%d/%m/%Y},{number}" for number, month in enumerate(MONTHS[:12])))
    with pytest.raises(MessyData, match=r"line 3.*'01/02/2012' can be read as 2012-02-01 or as 2012-01-02") as refusal:
        load(path)
    assert refusal.value.problems[0].flag == "--dayfirst"
    assert str(load(path, dayfirst=True).step) == "MS"
    assert str(load(path, date_format="%m/%d/%Y").step) == "D"


@pytest.mark.parametrize(
    ("cells", "step", "first"),
    [
        ([f"{1985 + n // 4}Q{n % 4 + 1}" for n in range(12)], "QS", "1985-01-01"),
        ([f"Q{n % 4 + 1} {1985 + n // 4}" for n in range(12)], "QS", "1985-01-01"),
        ([f"2018-W{n:02d}" for n in range(1, 13)], "W", "2018-01-01"),
    ],
)
def test_quarters_and_weeks_are_read_and_given_back(cells: list[str], step: str, first: str, tmp_path: Path) -> None:
    panel = load(written(tmp_path, "period,v", *(f"{cell},{n}" for n, cell in enumerate(cells))))
    assert (str(panel.step), str(panel.stamps[0])[:10]) == (step, first)
    assert localise(panel.stamps, panel.layout).tolist() == cells


def test_a_bare_year_is_a_year(tmp_path: Path) -> None:
    panel = load(written(tmp_path, "Year,v", *(f"{1985 + n},{n}" for n in range(12))))
    assert (str(panel.step), panel.layout.time_col) == ("YS", "Year")
    assert localise(panel.stamps[:1], panel.layout).tolist() == ["1985"]


@pytest.mark.parametrize(("name", "scale"), [("timestamp", 1), ("ts", 1000)])
def test_seconds_since_1970_are_moments(name: str, scale: int, tmp_path: Path) -> None:
    counts = [(1_325_376_000 + 3600 * hour) * scale for hour in range(12)]
    panel = load(written(tmp_path, f"{name},v", *(f"{count},{n}" for n, count in enumerate(counts))))
    assert (str(panel.step), str(panel.stamps[0])[:10]) == ("h", "2012-01-01")
    assert repair(panel, "unix time").value == str(counts[0])
    assert localise(panel.stamps[:1], panel.layout).tolist() == counts[:1]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Europe/London", "America/New_York"])
@pytest.mark.parametrize("minutes", [60, 30])
@pytest.mark.parametrize("turned", [False, True])
def test_local_time_when_clocks_are_set_back_has_every_hour_once(
    zone: str, minutes: int, turned: bool, tmp_path: Path
) -> None:
    start = "2012-11-03" if zone.startswith("America") else "2012-10-27"
    moments = pd.date_range(start, periods=4000 // minutes, freq=f"{minutes}min", tz=zone)
    lines = [f"{moment:%Y-%m-%d %H:%M},{number}" for number, moment in enumerate(moments)]
    path = written(tmp_path, "time,v", *(lines[::-1] if turned else lines))
    panel = load(path)
    assert values(panel) == list(range(len(moments)))
    assert (panel.layout.stored, panel.layout.bare) == ("utc", True)
    assert "--timezone" in repair(panel, "clock change").message
    assert localise(panel.stamps, panel.layout).tolist() == [line.split(",")[0] for line in lines]
    named = load(path, timezone=zone)
    np.testing.assert_array_equal(named.stamps, moments.tz_convert("UTC").tz_localize(None).to_numpy())
    assert values(named) == values(panel)


def test_an_hour_that_clocks_skip_is_no_hour_of_the_zone(tmp_path: Path) -> None:
    hours = pd.date_range("2012-03-24 20:00", periods=12, freq="h")
    path = written(tmp_path, "time,v", *(f"{hour:%Y-%m-%d %H:%M},1{n}" for n, hour in enumerate(hours)))
    with pytest.raises(MessyData, match=r"2012-03-25 02:00:00 does not exist in Europe/Berlin"):
        load(path, timezone="Europe/Berlin")
    with pytest.raises(SettingsError, match=r"'Europe/Berln', which is no time zone.*Did you mean 'Europe/Berlin'"):
        load(path, timezone="Europe/Berln")


@pytest.mark.parametrize("names", [("north", "south"), ("1", "2")])
def test_stores_are_series_where_nothing_else_can_be_meant(names: tuple[str, str], tmp_path: Path) -> None:
    lines = [f"{name},{day},{n}" for name in names for n, day in enumerate(DAYS)]
    panel = load(written(tmp_path, "store,date,units", *lines))
    assert (panel.ids, panel.columns, panel.layout.id_col) == (names, ("units",), "store")
    more = [f"{line},{n}" for n, line in enumerate(lines)]
    with pytest.raises(InputError, match=r"'units' and 'price'\); name one with target_col") as refusal:
        load(written(tmp_path, "store,date,units,price", *more))
    assert "--id-col" not in str(refusal.value)


def test_revenue_in_dollars_is_never_hinted_at_as_an_id(tmp_path: Path) -> None:
    lines = [f'{day},"$5,{n}"' for n, day in enumerate([*DAYS, *DAYS[:5]], start=100)]
    with pytest.raises(MessyData) as refusal:
        load(written(tmp_path, "date,Revenue", *lines))
    assert [problem.flag for problem in refusal.value.problems] == ["--duplicates mean"]
    assert "--id-col" not in str(refusal.value)


def test_a_log_whose_stamps_mostly_repeat_is_hinted_at_as_one(tmp_path: Path) -> None:
    path = written(tmp_path, "Date,Item,Price", *(f"{DAYS[n // 9]},cake {n},{n}" for n in range(90)))
    with pytest.raises(MessyData) as refusal:
        load(path)
    assert [problem.flag for problem in refusal.value.problems] == ["--every D --agg sum"]
    assert load(path, every="D", agg="count").original(slice(None), 0)[:, 0].tolist() == [9.0] * 10


def test_another_column_of_stamps_is_the_time_where_the_first_repeats(tmp_path: Path) -> None:
    hours = pd.date_range("2020-01-01", periods=48, freq="h")
    path = written(tmp_path, "date,ts,v", *(f"{hour:%Y-%m-%d},{hour},{n}" for n, hour in enumerate(hours)))
    panel = load(path)
    assert (panel.layout.time_col, panel.columns, str(panel.step)) == ("ts", ("v",), "h")
    with pytest.raises(MessyData, match="stands twice"):
        load(path, time_col="date", drop="ts")


def test_one_column_without_dates_goes_by_row_numbers(tmp_path: Path) -> None:
    panel = load(written(tmp_path, "v", *NUMBERS))
    assert (panel.columns, panel.stamps.tolist()) == (("v",), list(range(1, 31)))
    assert repair(panel, "row numbers").count == 30
    two = written(tmp_path, "v,w", *(f"{n},{n}.5" for n in NUMBERS))
    with pytest.raises(InputError, match=r"no time column.*--freq 1"):
        load(two)
    assert load(two, freq="1").columns == ("v", "w")


@pytest.mark.parametrize(
    ("how", "expected"),
    [("sum", [3.0, 0.0, 12.0]), ("count", [2.0, 0.0, 3.0]), ("mean", [1.5, np.nan, 4.0]), ("max", [2.0, np.nan, 5.0])],
)
def test_a_log_of_transactions_becomes_a_series(how: str, expected: list[float], tmp_path: Path) -> None:
    stamps = ["01 09:13", "01 17:40", "03 08:00", "03 23:59", "03 12:00"]
    path = written(tmp_path, "time,who,amount", *(f"2020-01-{s}:07,p{n},{n}" for n, s in enumerate(stamps, start=1)))
    with pytest.raises(MessyData, match=r"--every D --agg sum"):
        load(path)
    panel = load(path, every="D", agg=how)  # type: ignore[arg-type]
    np.testing.assert_array_equal(panel.original(slice(None), 0)[:, 0], expected)
    assert (str(panel.step), str(panel.stamps[0])) == ("D", "2020-01-01T00:00:00.000000")
    assert load(path, every="MS", agg="sum", freq="MS").original(slice(None), 0).tolist() == [[15.0]]


def test_options_that_do_not_go_together_are_refused() -> None:
    frame = pd.DataFrame({"date": DAYS, "v": range(30)})
    for options, words in (
        ({"agg": "sum"}, "every and agg go together"),
        ({"agg": "sum", "every": "D", "freq": "h"}, "freq is h and every is D"),
        ({"duplicates": "avg"}, "duplicates is 'avg'; it can be one of mean, sum, first, last"),
        ({"decimal": "coma"}, "Did you mean 'comma'"),
        ({"agg": "sum", "every": "dayly"}, "every 'dayly' is not a step"),
    ):
        with pytest.raises(SettingsError, match=words):
            load(frame, **options)


def test_all_problems_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    rows = [f"{day},{n},{n}.5" for n, day in enumerate(DAYS)]
    rows[3], rows[5], rows[7] = "yesterday,1,2", f"{DAYS[5]},broken,2", f"{DAYS[7]},1,inf"
    rows[9] = f"{DAYS[9]},1,2,3,4"
    path = written(tmp_path, "date,a,b", ",kW,C", *rows, f"{DAYS[20]},7,7", "Total,1,2")
    with pytest.raises(MessyData) as refusal:
        load(path, drop="c")
    problems = {problem.what: problem for problem in refusal.value.problems}
    assert set(problems) == {"unknown column", "fields", "stamp", "number", "infinite", "duplicates"}
    assert (problems["stamp"].place, problems["stamp"].column, problems["stamp"].value) == (
        "line 6",
        "date",
        "yesterday",
    )
    assert (problems["number"].place, problems["number"].column, problems["number"].value) == ("line 8", "a", "broken")
    assert problems["infinite"].place == "line 10"
    assert problems["fields"].place == "line 12"
    assert str(refusal.value).startswith(f"{path} has 6 problems:\n  1. ")
    assert str(refusal.value).count(str(path)) == 1


@pytest.mark.parametrize("parts", [("Year", "Month"), ("year", "month", "day")])
def test_years_months_and_days_in_columns_of_their_own_are_one_date(parts: tuple[str, ...], tmp_path: Path) -> None:
    stamps = MONTHS if len(parts) == 2 else pd.date_range("2012-01-01", periods=30)
    rows = [",".join(str(getattr(stamp, part.lower())) for part in parts) + f",{n}" for n, stamp in enumerate(stamps)]
    panel = load(written(tmp_path, ",".join([*parts, "v"]), *rows))
    np.testing.assert_array_equal(panel.stamps, stamps.to_numpy().astype("datetime64[us]"))
    assert (panel.columns, values(panel)) == (("v",), list(range(30)))
    assert repair(panel, "date parts").count == len(parts)


@pytest.mark.parametrize(
    "above",
    [
        ["Sales report,,"],
        ["Sales report"],
        ["Sales report", "", "Printed: 2020-01-03, by Ann"],
        ["# from a tool"],
        ["sep=,"],
    ],
)
def test_lines_above_the_header_are_left_out_and_rows_keep_their_lines(above: list[str], tmp_path: Path) -> None:
    rows = [f"{day},{number},2" for number, day in enumerate(DAYS)]
    panel = load(written(tmp_path, *above, "date,v,w", *rows))
    assert (panel.columns, values(panel)[:3]) == (("v", "w"), [0, 1, 2])
    rows[4] = rows[4].replace(",4,", ",broken,")
    with pytest.raises(MessyData) as refusal:
        load(written(tmp_path, *above, "date,v,w", *rows))
    assert [problem.place for problem in refusal.value.problems] == [f"line {len(above) + 6}"]


def test_rows_longer_than_the_header_are_one_problem_where_they_are_most(tmp_path: Path) -> None:
    with pytest.raises(MessyData) as refusal:
        load(written(tmp_path, "date,v", *(f"{day},1,2" for day in DAYS)))
    assert len([problem for problem in refusal.value.problems if problem.what == "fields"]) == 1
    assert f"as have {len(DAYS) - 1} other rows" in str(refusal.value)
