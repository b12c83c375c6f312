"""Models, checkpoints and result files of earlier versions: every later version reads them, and they say the same.

`saved_by_0_1_0/` was written by rearview 0.1.0 and is never made again; a version that changes a format adds a folder
of its own beside it.
"""

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rearview as rv
from rearview import bench
from rearview.cli import main

SAVED = Path(__file__).parent / "saved_by_0_1_0"
EXPECTED = json.loads((SAVED / "rows_expected.json").read_text(encoding="utf-8"))
KINDS: dict[str, tuple[Any, str]] = {
    "forecasting": (bench.Row, "mse"),
    "classification": (bench.ClassificationRow, "accuracy"),
    "detection": (bench.DetectionRow, "auc_pr"),
}
ROWS = sorted(path.name for path in SAVED.glob("*_[12]*.csv"))
STUDIES = {"flipflop": (), "components": (), "harmonic": ("--train", "steps=4,stretch=2,length=28,width=8,tested=16")}


def numbers(frame: Any) -> dict[str, np.ndarray]:
    """The columns of numbers of a frame of any kind, or of a CSV file."""
    if isinstance(frame, Path):
        with frame.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        columns = {name: [line[name] for line in lines] for name in lines[0]}
    else:
        columns = {str(name): list(frame[name]) for name in frame.columns}
    found = {}
    for name, cells in columns.items():
        try:
            found[name] = np.array([math.nan if cell in ("", None) else float(cell) for cell in cells])
        except (TypeError, ValueError):
            continue
    return found


def assert_same(answer: Any, name: str) -> None:
    """The answer has the numbers of a stored file, up to what another processor rounds otherwise."""
    found, expected = numbers(answer), numbers(SAVED / name)
    assert list(found) == list(expected)
    for column, cells in expected.items():
        np.testing.assert_allclose(found[column], cells, rtol=1e-5, atol=1e-6, err_msg=column)


def test_a_forecaster_forecasts_from_its_training_rows() -> None:
    assert_same(rv.Forecaster.load(SAVED / "forecaster").predict(), "forecaster_expected.csv")


def test_a_forecaster_forecasts_from_new_rows() -> None:
    forecaster = rv.Forecaster.load(SAVED / "forecaster", device="cpu")
    answer = forecaster.predict(str(SAVED / "wide.csv"), level=[50])
    assert_same(answer, "forecaster_expected_new_rows.csv")


def test_a_forecaster_of_a_long_file_with_known_inputs() -> None:
    forecaster = rv.Forecaster.load(SAVED / "forecaster_known")
    assert forecaster.name == "sales_model"
    answer = forecaster.predict(future=str(SAVED / "long_future.csv"))
    assert_same(answer, "forecaster_known_expected.csv")
    assert_same(
        forecaster.predict(str(SAVED / "long.csv"), future=str(SAVED / "long_future.csv")),
        "forecaster_known_expected.csv",
    )


def test_predict_on_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "next.csv"
    model, future = str(SAVED / "forecaster_known"), str(SAVED / "long_future.csv")
    assert main(["predict", model, str(SAVED / "long.csv"), "--future", future, "--out", str(out)]) == 0
    assert_same(out, "forecaster_known_expected.csv")


def test_a_detector_scores_and_flags() -> None:
    detector = rv.Detector.load(SAVED / "detector")
    rows = str(SAVED / "rows_new.csv")
    assert_same(detector.score(rows), "detector_expected.csv")
    expected = json.loads((SAVED / "detector_expected.json").read_text(encoding="utf-8"))
    flags, segments = detector.predict(rows)
    assert sum(flags["anomaly"]) == expected["anomalous"]
    assert len(segments) == expected["segments"]
    assert detector.evaluate(rows, labels="label").auc_pr == pytest.approx(expected["auc_pr"], rel=1e-5)


def test_a_classifier_tells_how_likely_classes_are() -> None:
    pd = pytest.importorskip("pandas")
    classifier = rv.Classifier.load(SAVED / "classifier")
    expected = numbers(SAVED / "classifier_expected.csv")
    assert [str(one) for one in classifier.classes_] == list(expected)
    likely = classifier.predict_proba(pd.read_csv(SAVED / "cases.csv"))
    np.testing.assert_allclose(likely, np.stack(list(expected.values()), axis=1), rtol=1e-5, atol=1e-6)


def test_a_run_that_was_cut_off_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "cut_off.safetensors"
    shutil.copyfile(SAVED / "cut_off.safetensors", checkpoint)
    asked = json.loads((SAVED / "cut_off.json").read_text(encoding="utf-8"))
    seen = _Seen()
    forecaster = rv.Forecaster(**asked, progress=seen).fit(str(SAVED / "wide.csv"), checkpoint=checkpoint, resume=True)
    assert seen.done > 0, "the run began afresh"
    found, expected = numbers(forecaster.predict()), numbers(SAVED / "cut_off_expected.csv")
    for column, cells in expected.items():
        np.testing.assert_allclose(found[column], cells, rtol=1e-3, atol=1e-3, err_msg=column)


class _Seen:
    """Follows a run and keeps how many windows had been visited before it began."""

    done = 0

    def begin(self, epochs: int, windows: int, done: int) -> None:
        self.done = done

    def step(self, epoch: int, done: int, loss: Any) -> None: ...

    def epoch(self, epoch: Any) -> None: ...

    def end(self) -> None: ...


def test_every_schema_is_among_the_rows() -> None:
    schemas = {(name.partition("_")[0], row[0]) for name in ROWS for row in EXPECTED[name]}
    assert schemas == {
        ("forecasting", 1), ("forecasting", 2), ("forecasting", 3), ("classification", 1), ("classification", 2),
        ("detection", 1), ("detection", 2),
    }  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_read(name: str) -> None:
    kind, metric = KINDS[name.partition("_")[0]]
    rows = bench.read(SAVED / name, kind)
    found = [[row.schema, row.dataset, row.model, row.attention, row.seed, getattr(row, metric)] for row in rows]
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_added_to_an_older_file_whose_rows_stay(name: str, tmp_path: Path) -> None:
    kind, _ = KINDS[name.partition("_")[0]]
    path = tmp_path / name
    shutil.copyfile(SAVED / name, path)
    before = bench.read(path, kind)
    bench.append(path, before[-1])
    assert bench.read(path, kind) == [*before, before[-1]]
    old, new = ((folder / name).read_text(encoding="utf-8").splitlines() for folder in (SAVED, tmp_path))
    assert all(there.startswith(line) for line, there in zip(old[1:], new[1:], strict=False))


def test_rows_of_all_kinds_make_a_page(tmp_path: Path) -> None:
    assert main(["report", *(str(SAVED / name) for name in ROWS), "--out", str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "report.html").stat().st_size > 0


@pytest.mark.parametrize("study", STUDIES)
def test_a_synthetic_study_makes_a_page(study: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAVED / "studies", tmp_path / "studies")
    assert main(["reproduce", study, "--compare", "--out", str(tmp_path / "studies"), *STUDIES[study]]) == 0
    said = capsys.readouterr().out
    for arm, *_ in EXPECTED["studies"][study]:
        assert arm in said
    assert (tmp_path / "studies" / f"{study}.html").stat().st_size > 0
