"""Detection benchmarks: the published protocol equals its authors' code, rows stand by themselves and are kept."""

import json
from pathlib import Path

import numpy as np
import pytest

from rearview.bench import protocols
from rearview.bench.rows.result_file import read
from rearview.bench.rows.row import DetectionRow
from rearview.bench.runs import detection, runner
from rearview.bench.runs.detection import detect
from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import labelled_arrays, tsb_ad
from rearview.estimators.detect import tslib
from rearview.tasks.alarms import adjust
from rearview.tasks.rankings import auc_pr

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "protocol.npz", allow_pickle=False)
TINY = {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1}
QUICK = {"epochs": 1, "batch": 32}
LOOKBACK = 20


@pytest.fixture
def folder(pumps: Path) -> Path:
    """A folder with a labelled set of two machines, which stands among the sets."""
    return pumps


def run(folder: Path, **asked):
    given = {"lookback": LOOKBACK, "settings": TINY, "training": QUICK, "device": "cpu", "data_dir": folder, **asked}
    return detect("pumps", given.pop("model", "itransformer"), **given)


@pytest.mark.parametrize("row", GOLDEN["output_anomaly_windows"].tolist())
def test_windows_are_those_of_the_published_loaders(row: list[int]) -> None:
    loader, split, train_rows, test_rows, size, count, first, second, last = row
    rows = test_rows if split == 2 else train_rows
    begin = tslib.validation_begin(rows) if split == 1 else 0
    starts = tslib.stride_windows(rows, size, 100 if loader else 1, begin).starts - size
    assert len(starts) == count
    assert (starts[0], starts[-1]) == (first, last)
    assert len(starts) == 1 or starts[1] == second


def test_the_threshold_is_that_of_the_published_code() -> None:
    train, test = GOLDEN["input_threshold/train_energy"], GOLDEN["input_threshold/test_energy"]
    for place, ratio in enumerate(GOLDEN["input_threshold/anomaly_ratio"].tolist()):
        limit = tslib.threshold(train, test, ratio)
        assert limit == pytest.approx(GOLDEN["output_threshold/combined"][place], abs=1e-12)
        assert int((test > limit).sum()) == GOLDEN["output_threshold/n_detected_combined"][place]


def test_joined_entities_are_one_series_of_the_same_values(folder: Path) -> None:
    whole = labelled_arrays.read(folder / "pumps.npz").test
    one = tslib.join_series(whole)
    assert (one.series, one.offsets.tolist()) == (1, [0, 300])
    apart = np.concatenate([whole.original(slice(a, b), s) for s, (a, b) in enumerate(whole.bounds())])
    np.testing.assert_allclose(one.original(slice(0, 300), 0), apart, atol=1e-3)


def test_a_run_that_another_command_ended_meanwhile_is_one_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"results": folder / "rows.csv", "resume": True}
    row = run(folder, **asked)
    monkeypatch.setattr(runner.result_file, "known_rows", lambda path, kind: [])
    assert run(folder, **asked) == row
    assert read(folder / "rows.csv", DetectionRow) == [row]


def test_the_published_protocol_counts_rows_once_a_window_and_adjusts_them(folder: Path) -> None:
    row = run(folder, protocol="published:tslib")
    assert row.rows == (300 - LOOKBACK + 1) * LOOKBACK
    assert row.stride == 1
    assert row.threshold_rule == "percentile 95 of train and test"
    assert row.auc_pr is None
    assert row.adjusted_recall >= row.recall
    whole = labelled_arrays.read(folder / "pumps.npz")
    which = tslib.stride_windows(300, LOOKBACK, 1)
    truth = tslib.window_labels(whole.labels, which, LOOKBACK)
    assert truth.sum() == row.anomalous
    rng = np.random.default_rng(0)
    train, test = rng.random((380, LOOKBACK)), rng.random(truth.shape)
    judged = tslib.judge(train, test, truth, 5.0)
    flags = test.ravel() > tslib.threshold(train, test, 5.0)
    hits = (adjust(truth.ravel(), flags) & truth.ravel()).sum()
    assert judged.adjusted.recall == pytest.approx(hits / truth.sum())
    assert judged.flagged == flags.sum()


def test_the_clean_protocol_scales_entities_apart_and_judges_rows_once(folder: Path) -> None:
    row = run(folder, settings={**TINY, "normalise": "none"})
    assert (row.rows, row.entities, row.anomalous) == (300, 2, 30)
    assert row.auc_pr > 0.6  # with one scaler for both the second pump would drown everything
    assert row.vus_pr is not None
    assert row.parameters > 0
    assert row.best_epoch == 1


def test_the_cut_of_tsb_ad_trains_on_first_parts_and_means_over_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsb_ad, "FEWEST", 60)
    monkeypatch.setattr(tsb_ad, "BEFORE", 0)
    row = run(folder, protocol="published:tsb-ad")
    whole = labelled_arrays.read(next(folder.rglob("*.npz")))
    rows = [tsb_ad.training_rows(whole.labels[a:b]) for a, b in whole.test.bounds()]
    assert (row.rows, row.train_rows, row.entities) == (300, sum(rows), 2)
    scores = np.arange(300.0)
    means = detection._means_over_files(tsb_ad.cut(whole), scores)
    each = [auc_pr(whole.labels[a:b] == 1, scores[a:b]) for a, b in whole.test.bounds()]
    assert means["auc_pr"] == pytest.approx(np.mean(each))
    assert 0 < row.vus_pr <= 1


@pytest.mark.parametrize("protocol", ["clean", "published:tslib", "published:tsb-ad"])
def test_a_row_says_what_the_run_cost_and_what_its_protocol_did(folder: Path, protocol: str) -> None:
    row = run(folder, settings=TINY, protocol=protocol)
    assert row.habits == protocols.get(protocol).describe_habits(protocols.DETECTION)
    assert row.loop == "eager"
    assert row.windows_per_second > 0
    assert row.peak_memory_bytes > 2**20
    assert 0 < row.latency_ms < 1000 * row.total_seconds


def test_a_clean_row_says_how_much_an_epoch_visits_whatever_the_device(folder: Path) -> None:
    said = json.loads(run(folder, settings=TINY).training)
    assert said["windows_per_epoch"] is None
    assert said["clip"] == 1.0


def test_rows_are_kept_found_again_and_read_back(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "out" / "detection.csv"
    first = run(folder, results=results)
    assert read(results, DetectionRow) == [first]
    monkeypatch.setattr(detection, "_fit_clean", None)  # nothing is trained for a row that is there
    assert run(folder, results=results) == first
    with pytest.raises(TypeError):
        run(folder, results=results, seed=1)


def test_a_row_names_the_networks_own_mechanism_and_is_known_at_any_speed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "out" / "detection.csv"
    rows = [run(folder, model="gat", results=results, attention=attention) for attention in (None, "softmax")]
    assert [row.attention for row in rows] == ["gat", "softmax"]
    assert rows[0].parameters != rows[1].parameters
    monkeypatch.setattr(detection, "_fit_clean", None)  # nothing is trained for a row that is there
    assert run(folder, model="gat", results=results, training={**QUICK, "capture": False, "accumulate": 1}) == rows[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"protocol": "published:tsl"}, "no detection protocol"),
        ({"protocol": "published:tslib", "mode": "forecast"}, "leave them out"),
        ({"model": "tsmixer", "settings": {}, "attention": "softmax"}, "tsmixer has no attention to replace"),
    ],
)
def test_what_does_not_exist_is_refused(folder: Path, asked: dict, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        run(folder, **asked)


def test_a_file_of_other_rows_is_refused_before_anything_is_trained(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="is no results file"):
        run(folder, results=tmp_path / "other.csv")


@pytest.mark.slow
def test_asd_is_detected_far_better_than_chance_under_the_clean_protocol(real_data: Path) -> None:
    settings = {"width": 32, "heads": 4, "feed_forward": 32, "depth": 1, "normalise": "none"}
    training = {"epochs": 2, "windows_per_epoch": 12_800, "learning_rate": 1e-3}
    row = detect("ASD", "itransformer", settings=settings, training=training, device="cpu", data_dir=real_data)
    assert row.auc_pr > 3 * row.anomalous / row.rows
    assert row.adjusted_f1_by_chance > row.f1  # the adjustment makes chance look better than an honest F1
