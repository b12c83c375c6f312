"""Labels beside the data: an array goes with the rows as the frame has them, whatever order that is."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sensors import broken, detector, fleet, ordinary

from rearview import Detector
from rearview.core.errors import InputError


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return detector().fit(ordinary())


@pytest.fixture(scope="module")
def known(fitted: Detector) -> float:
    return fitted.evaluate(broken(), "label").auc_pr


def given(frame: pd.DataFrame, kind: str):
    if kind == "pandas":
        return frame
    if kind == "index":
        return frame.set_index("date")
    polars = pytest.importorskip("polars").from_pandas(frame)
    return {"polars": polars, "lazy": polars.lazy(), "arrow": polars.to_arrow()}[kind]


@pytest.mark.parametrize("kind", ["pandas", "index", "polars", "lazy", "arrow"])
def test_an_array_is_sorted_with_its_rows(fitted: Detector, known: float, kind: str) -> None:
    shuffled = broken().sample(frac=1, random_state=3)
    frame, labels = shuffled.drop(columns="label"), shuffled["label"].to_numpy()
    assert fitted.evaluate(given(frame, kind), labels).auc_pr == known


def test_rows_that_are_absent_or_twice_there_have_their_labels(fitted: Detector) -> None:
    frame = broken().drop(index=range(20, 30))
    twice = pd.concat([frame, frame.iloc[:1]])
    labels = frame["label"].to_numpy()
    once = fitted.evaluate(frame.drop(columns="label"), labels)
    assert once.rows == 190
    assert fitted.evaluate(twice.drop(columns="label"), np.append(labels, labels[0])) == once


def test_machines_in_turns_have_their_own_labels() -> None:
    frame = fleet()
    frame.loc[100:110, "load"] += 1000
    labels = np.zeros(len(frame))
    labels[100:111] = 1
    in_turns = np.argsort(frame["date"].to_numpy(), kind="stable")
    fitted = detector(id_col="machine").fit(fleet())
    assert fitted.evaluate(frame.iloc[in_turns], labels[in_turns]) == fitted.evaluate(frame, labels)


def test_a_pandas_series_goes_with_the_index_of_the_frame(fitted: Detector, known: float) -> None:
    frame = broken()
    labels, values = frame["label"], frame.drop(columns="label")
    assert fitted.evaluate(values.sample(frac=1, random_state=3), labels).auc_pr == known
    assert fitted.evaluate(values, labels.sample(frac=1, random_state=4)).auc_pr == known
    twice = values.set_axis(np.zeros(200), axis=0)
    assert fitted.evaluate(twice, labels.set_axis(np.zeros(200))).auc_pr == known
    with pytest.raises(InputError, match=r"labels have another index than the frame.*labels\.to_numpy\(\)"):
        fitted.evaluate(values.set_index("date"), labels)
    with pytest.raises(InputError, match="another index"):
        fitted.evaluate(values, labels.set_axis(np.arange(5, 205)))
    with pytest.raises(InputError, match="There are 199 labels for 200 rows"):
        fitted.evaluate(values, labels[1:])


def test_what_has_no_index_goes_by_position(fitted: Detector, known: float) -> None:
    polars = pytest.importorskip("polars")
    frame = broken().set_axis(np.arange(1000, 1200), axis=0)
    labels, values = frame["label"], frame.drop(columns="label")
    for alike in (labels.tolist(), labels.to_numpy(), polars.Series(labels.to_numpy())):
        assert fitted.evaluate(values, alike).auc_pr == known
    assert fitted.evaluate(polars.from_pandas(values), labels).auc_pr == known


def test_a_column_of_that_name_is_no_obstacle(fitted: Detector, known: float) -> None:
    frame = broken()
    labels = frame["label"].to_numpy()
    assert fitted.evaluate(frame.rename(columns={"label": "label 1"}), labels).auc_pr == known


def test_arrays_that_do_not_go_with_the_rows_are_refused(fitted: Detector, tmp_path: Path) -> None:
    frame = broken().drop(columns="label")
    with pytest.raises(InputError, match=r"an array of labels of shape \(200, 1\) for 200 rows"):
        fitted.evaluate(frame, np.zeros((200, 1)))
    with pytest.raises(InputError, match="has both a label and a score, so there is nothing to compare"):
        fitted.evaluate(frame, np.full(200, np.nan))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InputError, match="must stand in it"):
        fitted.evaluate(tmp_path / "rows.csv", np.zeros(200))
