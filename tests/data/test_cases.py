"""Arrays, lists and long frames become the same cases, and what can be none is refused by name."""

import numpy as np
import pytest

from rearview.core.errors import InputError
from rearview.data.cases import case_reader
from rearview.data.cases.case_reader import as_cases

X = np.arange(24.0).reshape(3, 2, 4)


def long_frame(kind):
    """The cases of X as a long frame, its rows shuffled, ids in the order c, a, b."""
    pandas = pytest.importorskip("pandas")
    ids, times = np.repeat(["c", "a", "b"], 4), np.tile(np.arange(4), 3)
    columns = {"id": ids, "time": times, "one": X[:, 0].ravel(), "two": X[:, 1].ravel()}
    columns["kind"] = np.repeat(["x", "y", "x"], 4)
    order = np.random.default_rng(0).permutation(12)
    order = np.concatenate([[0], order[order != 0]])  # the first id stays first
    frame = pandas.DataFrame(columns).iloc[order]
    if kind == "pandas":
        return frame
    polars = pytest.importorskip("polars")
    whole = polars.DataFrame({name: frame[name].tolist() for name in frame.columns})
    return whole if kind == "polars" else whole.to_arrow()


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_long_frame_holds_the_cases_of_an_array(kind):
    frame = long_frame(kind)
    cases = as_cases(frame, "kind")
    found = dict(zip(cases.names, cases.series, strict=True))
    for name, one in zip(("id c", "id a", "id b"), X, strict=True):
        np.testing.assert_array_equal(found[name], one)
    assert dict(zip(cases.names, cases.labels.tolist(), strict=True)) == {"id c": "x", "id a": "y", "id b": "x"}
    assert cases.names[0] == "id c"


def test_classes_of_a_frame_can_come_by_id_or_in_order():
    pandas = pytest.importorskip("pandas")
    frame = long_frame("pandas").drop(columns="kind")
    by_id = {"a": 1, "b": 2, "c": 3}
    wanted = [by_id[name.removeprefix("id ")] for name in as_cases(frame).names]
    assert as_cases(frame, by_id).labels.tolist() == wanted
    assert as_cases(frame, pandas.Series(by_id)).labels.tolist() == wanted
    assert as_cases(frame, wanted).labels.tolist() == wanted


def test_classes_that_pandas_leaves_out_are_missing():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"no class for 1 of 3 cases \(NaN or None\), the first at place 2"):
        as_cases(X, pandas.Series(["a", pandas.NA, "b"], dtype=object))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_class_that_is_missing_among_text_is_no_class_called_nan(missing):
    with pytest.raises(InputError, match=r"no class for 1 of 3 cases \(NaN or None\), the first at place 2"):
        as_cases(X, ["a", missing, "b"])
    frame = long_frame("pandas")
    with pytest.raises(InputError, match="no class for 1 of 3 cases"):
        as_cases(frame.assign(kind=frame["kind"].where(frame["id"] != "a")), "kind")
    with pytest.raises(InputError, match="no class for 1 of 3 cases"):
        as_cases(frame.drop(columns="kind"), {"a": "x", "b": missing, "c": "y"})


@pytest.mark.parametrize("column", ["id", "time"])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_rows_without_an_id_or_a_time_are_refused(kind, column):
    frame = long_frame("pandas")
    frame[column] = frame[column].where(np.arange(12) != 5)
    if kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    with pytest.raises(InputError, match=f"column '{column}' has no value in 1 of 12 rows, the first in row 6"):
        as_cases(frame, "kind")


def test_channels_of_a_frame_are_taken_by_name():
    frame = long_frame("pandas")
    cases = as_cases(frame[["kind", "two", "time", "one", "id"]], columns=("one", "two"))
    assert cases.columns == ("one", "two")
    np.testing.assert_array_equal(dict(zip(cases.names, cases.series, strict=True))["id a"], X[1])
    with pytest.raises(InputError, match="no column 'two', which the classifier was trained on"):
        as_cases(frame.drop(columns="two"), columns=("one", "two"))


def test_no_case_and_too_large_a_value_are_refused():
    with pytest.raises(InputError, match="X holds no case"):
        as_cases([], [])
    with pytest.raises(InputError, match=r"case 2: channel 1, step 3 is too large for float32 \(1e\+100\)"):
        as_cases(np.where(np.arange(24).reshape(3, 2, 4) == 10, 1e100, X))


def test_objects_of_one_kind_are_classes_like_any():
    assert as_cases(X, np.array(["b", "a", "b"], dtype=object)).labels.tolist() == ["b", "a", "b"]
    assert as_cases(X, np.array([1, 2.0, True], dtype=object)).labels.tolist() == [1, 2.0, True]


def test_a_frame_with_ambiguous_columns_is_refused():
    frame = long_frame("pandas")
    with pytest.raises(InputError, match="column 'kind' holds"):
        as_cases(frame)
    with pytest.raises(InputError, match="no class for 1 of 3 ids, such as 'b'"):
        as_cases(frame.drop(columns="kind"), {"a": 1, "c": 2})
    with pytest.raises(InputError, match="holds 2 classes, but X holds 3 ids"):
        as_cases(frame.drop(columns="kind"), [1, 2])
    with pytest.raises(InputError, match="no column called unique_id"):
        as_cases(frame.rename(columns={"id": "who"}), "kind")
    with pytest.raises(InputError, match="two rows at time 2"):
        as_cases(frame.assign(time=2), "kind")
    mixed = frame.assign(kind=np.arange(12).astype(str))
    with pytest.raises(InputError, match=r"in one row and .* in another"):
        as_cases(mixed, "kind")
    assert as_cases(frame.rename(columns={"id": "who"}), "kind", id_col="who").channels == 2


def test_a_row_for_each_case_is_refused_with_what_to_do():
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame(np.ones((4, 9)), columns=[f"step {n}" for n in range(9)]).assign(id=range(4), label="a")
    with pytest.raises(InputError, match="a column for each step, make rows of its steps first, as pandas' melt does"):
        as_cases(wide)


def test_a_matrix_is_one_channel_and_a_list_may_be_unequal():
    assert as_cases(X[:, 0]).series[1].shape == (1, 4)
    assert as_cases([X[0], X[1][:, :2]]).lengths.tolist() == [4, 2]
    assert as_cases([[1.0, 2.0, 3.0], [1.0, 2.0]]).series[1].tolist() == [[1.0, 2.0]]


def test_cases_of_more_channels_than_steps_are_doubted_in_training():
    X, y = np.arange(3.0 * 11 * 2).reshape(3, 11, 2), ["ash", "elm", "oak"]
    (doubt,) = as_cases(X, y).findings
    assert (doubt.kind, doubt.what, doubt.count) == ("warning", "more_channels_than_steps", 3)
    assert doubt.message == (
        "X is read as cases of 11 channels and 2 steps; channels come before time: if these are 2 channels of 11 "
        "steps, give np.transpose(X, (0, 2, 1))."
    )
    for fine in (X.transpose(0, 2, 1), X[:, :2], X[..., 0]):
        assert not as_cases(fine, y).findings
    assert not as_cases(X).findings
    assert not as_cases([X[0], np.ones((11, 13)), X[2]], y).findings


def test_ends_without_any_value_are_how_unequal_series_lie_in_one_array():
    padded = np.full((2, 2, 6), np.nan)
    padded[0, :, :4], padded[1] = X[0], 1.0
    padded[1, 0, 5] = np.nan
    cases = as_cases(padded)
    assert cases.lengths.tolist() == [4, 6]
    assert cases.missing == 1


@pytest.mark.parametrize(
    ("given", "y", "sentence"),
    [
        (X, [1, 2], "y holds 2 classes, but X holds 3 cases"),
        (X, [[1, 2, 3]], r"its shape is \(1, 3\)"),
        (X, [1.0, np.nan, 2.0], "no class for 1 of 3 cases"),
        (X, ["a", None, "b"], "the first at place 2"),
        (X, [0.1, 0.2, 0.3], "measurements such as 0.1"),
        (X, np.array(["a", 1, "b"], dtype=object), "have no order: they are of the type int and str"),
        (X, np.array([{}, {"a": 1}, {}], dtype=object), "of the type dict; make all of them text"),
        (X, {1: 1}, "go with a long frame"),
        (np.float64(3), None, "0 axes"),
        (np.zeros(3), None, "Reshape your data"),
        (np.zeros((0, 3)), None, r"0 sample\(s\)"),
        (np.full((2, 1, 3), np.inf), None, r"case 1: channel 1, step 1 is infinity"),
        (X.astype(complex), None, "Complex data not supported"),
        ([["a", "b"], ["c", "d"]], None, "does not hold numbers"),
        ([X[0], X[1][:1]], None, "case 2 has 1 channels, but case 1 has 2"),
        ([X[0], np.zeros((2, 0))], None, r"case 2: its shape is \(2, 0\)"),
    ],
)
def test_data_that_can_not_be_cases_is_refused(given, y, sentence):
    with pytest.raises(InputError, match=sentence):
        as_cases(given, y)


def test_a_long_file_holds_the_cases_of_its_frame(tmp_path):
    frame = long_frame("pandas")
    frame.to_csv(tmp_path / "cases.csv", index=False)
    whole, read = as_cases(frame, "kind"), as_cases(str(tmp_path / "cases.csv"), "kind")
    assert (read.names, read.columns, read.labels.tolist()) == (whole.names, whole.columns, whole.labels.tolist())
    for ours, theirs in zip(read.series, whole.series, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert read.source == str(tmp_path / "cases.csv")


def test_classes_of_a_text_file_are_kept_as_written(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text(
        "id,t,x,label\n" + "".join(f"{case:02},{t},{t},{case % 2}\n" for case in range(4) for t in range(3))
    )
    cases = as_cases(path, "label")
    assert cases.labels.tolist() == ["0", "1", "0", "1"]
    assert cases.names == ("id 00", "id 01", "id 02", "id 03")


def test_times_written_as_text_are_put_in_the_order_of_time():
    pandas = pytest.importorskip("pandas")
    days = [f"{day}.1.2024" for day in range(1, 14)]
    frame = pandas.DataFrame({"id": "a", "time": days, "x": np.arange(13.0)}).sample(frac=1, random_state=0)
    np.testing.assert_array_equal(as_cases(frame).series[0][0], np.arange(13.0))


def test_a_channel_called_t_is_not_taken_for_the_time():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": "a", "T": [20.0, 19.0, 21.0], "time": [2, 1, 0], "x": [2.0, 1.0, 0.0]})
    cases = as_cases(frame)
    assert cases.columns == ("T", "x")
    np.testing.assert_array_equal(cases.series[0], [[21.0, 19.0, 20.0], [0.0, 1.0, 2.0]])
    assert as_cases(frame.drop(columns="time")).columns == ("x",)


def test_a_channel_of_training_is_neither_id_nor_time():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"time": [5.0, 7.0, 6.0], "step": [2, 1, 0], "id": [1.0, 2.0, 3.0], "case": "a"})
    cases = as_cases(frame, columns=("time", "id"))
    np.testing.assert_array_equal(cases.series[0], [[6.0, 7.0, 5.0], [3.0, 2.0, 1.0]])
    with pytest.raises(InputError, match="or t beside 'time' and 'id', which the classifier was trained on; say"):
        as_cases(frame.drop(columns="step"), columns=("time", "id"))


def test_channels_of_a_text_file_are_read_as_numbers_are_written(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("id,t,x,z\na,0,1.5,1\na,1,NA,-\na,2,2.5,3\n")
    np.testing.assert_array_equal(as_cases(path).series[0], [[1.5, np.nan, 2.5], [1.0, np.nan, 3.0]])
    path.write_text("id;t;x\na;0;1.234,5\na;1;-\na;2;12.345,0\n")
    np.testing.assert_array_equal(as_cases(path).series[0], [[1234.5, np.nan, 12345.0]])


def test_a_channel_that_holds_no_clear_numbers_is_refused(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("id,t,x\na,0,up\na,1,down\n")
    with pytest.raises(InputError, match=r"'x' holds String, but a channel holds numbers; leave it out, or name it as"):
        as_cases(path)
    path.write_text('id,t,x\na,0,"1,234"\na,1,"2,345"\n')
    with pytest.raises(InputError, match=r"'x' may hold numbers with a decimal comma .* or leave the column out\.$"):
        as_cases(path)
    path.write_text("id,t,x\na,0,1.5\na,1,up\n")
    with pytest.raises(InputError, match="line 3, column 'x' holds 'up', which is not a number"):
        as_cases(path)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_steps_that_have_names_are_put_in_the_order_of_their_letters(kind):
    columns = {"id": ["a"] * 3, "step": ["s2", "s1", "s3"], "x": [2.0, 1.0, 3.0]}
    frame = pytest.importorskip(kind).DataFrame(columns)
    np.testing.assert_array_equal(as_cases(frame).series[0], [[1.0, 2.0, 3.0]])


def test_times_written_as_decimals_are_put_in_the_order_of_numbers(tmp_path):
    path = tmp_path / "cases.csv"
    rows = ["id;t;x", "a;1.000,5;4", "a;20,5;3", "a;3,5;2"]
    path.write_text("\n".join(rows) + "\n")
    np.testing.assert_array_equal(as_cases(path).series[0], [[2.0, 3.0, 4.0]])
    path.write_text("\n".join([*rows, "a;NA;1"]) + "\n")
    with pytest.raises(InputError, match="'t' has no value in 1 of 4 rows, the first in row 4"):
        as_cases(path)
    path.write_text("\n".join([*rows, "a;end;1"]) + "\n")
    with pytest.raises(InputError, match="name another time column with time_col"):
        as_cases(path)


def test_the_column_of_classes_is_found_without_reading_the_rows(tmp_path, monkeypatch):
    path = tmp_path / "cases.csv"
    path.write_text("id,t,x,Label\na,0,1.5,up\n")
    monkeypatch.setattr(case_reader, "open_table", lambda *_, **__: pytest.fail("the whole file was read"))
    assert case_reader.label_column(path, None) == "Label"


@pytest.mark.parametrize("classes", [["0", "0", "1", "1"], [False, False, True, True]], ids=["text", "booleans"])
def test_a_class_that_is_left_in_a_frame_is_no_channel(classes):
    polars = pytest.importorskip("polars")
    columns = {"id": ["a", "a", "b", "b"], "t": [0, 1, 0, 1], "x": [1.0, 2.0, 3.0, 4.0], "kind": classes}
    frame = polars.DataFrame(columns)
    with pytest.raises(InputError, match=r"column 'kind' holds .*name it as y if it says the class"):
        as_cases(frame, ["u", "v"])
