"""One run: the windows it sees, the scaler, the errors, what the row says, resuming, and what is refused."""

import hashlib
import json
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
import torch
from small import CHANNELS, HORIZON, LOOKBACK, ROWS, SMALL, TEST_START, TRAIN_END, numbers, write

from rearview import bench, train
from rearview.bench.runs import forecasting, measurement, provenance
from rearview.bench.runs.forecasting import split
from rearview.core.errors import InputError, RearviewWarning, SettingsError
from rearview.data.datasets import catalogue
from rearview.data.windows import Source

FAST = {"epochs": 2, "batch": 64, "learning_rate": 1e-3}
run = partial(bench.run, "Small", horizon=HORIZON, lookback=LOOKBACK, device="cpu", progress=train.Silent())


class Stops(train.Silent):
    """Progress that breaks off a run at the second update of its second epoch."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def step(self, epoch, done, loss):
        if epoch == 2 and done > FAST["batch"]:
            raise self.error


class Remembers(train.Silent):
    """Progress that knows how many windows were visited before the session."""

    def begin(self, epochs, windows, done):
        self.before = done


@pytest.fixture
def tested(monkeypatch):
    """What `measurement.errors` was called with, and the windows gathered before and in it."""
    seen = {"before": [], "in": []}
    gather, errors = Source.batch, measurement.errors
    stage = ["before"]

    def batch(self, index):
        seen[stage[0]] += self.starts[index].tolist()
        return gather(self, index)

    def judged(network, task, source, index, std, **rest):
        seen.update(network=network, source=source, std=std)
        stage[0] = "in"
        return errors(network, task, source, index, std, **rest)

    monkeypatch.setattr(Source, "batch", batch)
    monkeypatch.setattr(measurement, "errors", judged)
    return seen


def scaled() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells on the training rows' standard scale, with mean and deviation, from the numbers themselves."""
    cells = numbers()
    mean, std = cells[:TRAIN_END].mean(axis=0), cells[:TRAIN_END].std(axis=0)
    return (cells - mean) / std, mean, std


def literal_errors(forecast) -> dict[str, float]:
    """Errors by plain loops; `forecast(past [channel, time])` gives [channel, step] on the standard scale."""
    z, mean, std = scaled()
    squares, sizes, original_squares, original_sizes, cells = 0.0, 0.0, 0.0, 0.0, 0
    for start in range(TEST_START, ROWS - HORIZON + 1):
        yhat = forecast(z[start - LOOKBACK : start].T)
        for channel in range(CHANNELS):
            for step in range(HORIZON):
                error = yhat[channel][step] - z[start + step][channel]
                original = yhat[channel][step] * std[channel] + mean[channel] - numbers()[start + step][channel]
                squares += error**2
                sizes += abs(error)
                original_squares += original**2
                original_sizes += abs(original)
                cells += 1
    sums = {"mse": squares, "mae": sizes, "original_mse": original_squares, "original_mae": original_sizes}
    return {name: total / cells for name, total in sums.items()}


def test_a_row_says_everything(folder):
    row = run("itransformer", training=FAST, settings={"width": 16, "heads": 2}, seed=5, data_dir=folder)
    empty = [name for name, value in asdict(row).items() if value in ("", None, "{}")]
    assert set(empty) <= {"attention_settings", "commit", "problem", "budget"}
    assert (row.dataset, row.model, row.attention, row.protocol, row.seed) == (
        "Small", "itransformer", "softmax", "clean", 5
    )  # fmt: skip
    assert row.file_sha256 == hashlib.sha256((folder / "small.csv").read_bytes()).hexdigest()
    assert (row.rows, row.channels, row.lookback, row.horizon) == (ROWS, CHANNELS, LOOKBACK, HORIZON)
    assert json.loads(row.borders) == {
        "train": [0, TRAIN_END],
        "validation": [TRAIN_END - LOOKBACK, TEST_START],
        "test": [TEST_START - LOOKBACK, ROWS],
    }
    assert row.train_windows == TRAIN_END - LOOKBACK - HORIZON + 1
    assert row.validation_windows == TEST_START - TRAIN_END - HORIZON + 1
    assert row.test_windows == ROWS - TEST_START - HORIZON + 1
    settings, training = json.loads(row.settings), json.loads(row.training)
    assert (settings["width"], settings["depth"], settings["activation"]) == (16, 2, "gelu")
    assert (training["epochs"], training["schedule"], training["optimiser"]) == (2, "type1", "adam")
    assert row.epochs == 2
    assert row.best_epoch in (1, 2)
    assert row.parameters > 0
    assert row.total_seconds > row.train_seconds > 0
    assert row.windows_per_second == pytest.approx(2 * row.train_windows / row.train_seconds)
    assert row.peak_memory_bytes > 2**20
    assert row.latency_ms > 0
    assert "No window is dropped." in row.habits
    assert row.habits.endswith("Dropped: no window.")


def test_training_sees_no_test_row_and_the_test_windows_are_seen_once(folder, tested):
    run("dlinear", training=FAST, data_dir=folder)
    assert max(tested["before"]) + HORIZON == TEST_START
    assert tested["in"] == list(range(TEST_START, ROWS - HORIZON + 1))
    learned = sorted({start for start in tested["before"] if start < TRAIN_END})
    assert learned == list(range(LOOKBACK, TRAIN_END - HORIZON + 1))


def test_no_row_of_a_training_window_lies_behind_the_training_border(folder):
    parts = split(catalogue.load("Small", folder), SMALL, LOOKBACK, HORIZON)
    rows = parts.train.starts[:, None] + np.arange(-LOOKBACK, HORIZON)
    assert sorted(set(rows.ravel().tolist())) == list(range(TRAIN_END))
    for part, first, last in ((parts.validation, TRAIN_END, TEST_START), (parts.test, TEST_START, ROWS)):
        targets = part.starts[:, None] + np.arange(HORIZON)
        assert sorted(set(targets.ravel().tolist())) == list(range(first, last))


def test_parts_that_lend_no_context_keep_to_themselves(folder):
    parts = split(catalogue.load("Small", folder), replace(SMALL, rule="pems"), LOOKBACK, HORIZON)
    assert parts.borders.validation == (301, 402)
    assert parts.validation.starts.min() == 301 + LOOKBACK
    assert parts.test.starts.min() == 402 + LOOKBACK
    assert len(parts.test) == ROWS - 402 - LOOKBACK - HORIZON + 1


def test_the_scaler_knows_the_training_rows_alone(folder):
    panel = catalogue.load("Small", folder)
    _, mean, std = scaled()
    scaler = split(panel, SMALL, LOOKBACK, HORIZON).scaler
    np.testing.assert_allclose(scaler.mean[0] + panel.centre[0], mean, rtol=1e-6)
    np.testing.assert_allclose(scaler.std[0], std, rtol=1e-5)
    later = numbers()
    later[TRAIN_END:] = later[TRAIN_END:] * 3 + 100
    write(folder / "small.csv", later)
    other = catalogue.load("Small", folder)
    moved = split(other, SMALL, LOOKBACK, HORIZON).scaler
    np.testing.assert_allclose(moved.mean[0] + other.centre[0], mean, rtol=1e-6)
    np.testing.assert_allclose(moved.std[0], std, rtol=1e-5)


def test_the_test_error_of_a_trained_network_is_the_literal_one(folder, tested):
    row = run("dlinear", training=FAST, data_dir=folder)

    def forecast(past):
        with torch.no_grad():
            return tested["network"](torch.tensor(past[None], dtype=torch.float32))[0].double().numpy()

    for name, value in literal_errors(forecast).items():
        assert getattr(row, name) == pytest.approx(value, rel=1e-5), name


def test_seasonal_naive_runs_without_training(folder):
    row = run("seasonal_naive", data_dir=folder)
    assert json.loads(row.settings) == {"period": 24}
    assert (row.epochs, row.best_epoch, row.train_seconds, row.windows_per_second) == (0, None, 0.0, None)
    assert (row.training, row.attention, row.parameters) == ("{}", "", 0)
    expected = literal_errors(lambda past: past[:, -24 : -24 + HORIZON])
    assert {name: getattr(row, name) for name in expected} == pytest.approx(expected, rel=1e-5)


def test_missing_cells_of_the_future_do_not_count(folder):
    cells = numbers()
    gaps = np.random.default_rng(23).random(cells.shape) < 0.1
    cells[:LOOKBACK] = numbers()[:LOOKBACK]
    cells[gaps] = np.nan
    write(folder / "small.csv", cells)
    row = run("seasonal_naive", data_dir=folder, settings={"period": 1})
    mean, std = np.nanmean(cells[:TRAIN_END], axis=0), np.nanstd(cells[:TRAIN_END], axis=0)
    errors = []
    for start in range(TEST_START, ROWS - HORIZON + 1):
        for channel in range(CHANNELS):
            last = next(value for value in cells[start - 1 :: -1, channel] if not np.isnan(value))
            for step in range(HORIZON):
                if not np.isnan(cells[start + step, channel]):
                    errors.append((last - cells[start + step, channel]) / std[channel])
    assert np.isfinite(mean).all()
    assert row.mse == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert row.mae == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)


def test_a_channel_without_any_value_is_refused(folder):
    cells = numbers()
    cells[:, 1] = np.nan
    write(folder / "small.csv", cells)
    with pytest.raises(InputError, match="c1"):
        run("seasonal_naive", data_dir=folder)


def test_the_validation_loss_is_that_of_the_best_epoch(folder, tested):
    row = run("dlinear", training=FAST, data_dir=folder)
    source = tested["source"]
    index = torch.arange(row.train_windows, row.train_windows + row.validation_windows)
    found = measurement.errors(tested["network"], forecasting.Forecast(HORIZON), source, index, tested["std"], batch=13)
    assert row.validation_loss == pytest.approx(found.mse, rel=1e-6)


def test_a_network_with_a_place_for_it_gets_the_hourly_calendar(folder, tested):
    small = {"width": 16, "heads": 2}
    with_calendar = run("itransformer", training=FAST, settings=small, data_dir=folder)
    assert with_calendar.calendar == "h"
    assert tested["network"].shape.marks == 4
    assert tested["network"].shape.future == 0
    without = run("itransformer", training=FAST, settings={**small, "calendar": False}, data_dir=folder)
    assert without.calendar == ""
    assert tested["network"].shape.marks == 0
    assert without.mse != with_calendar.mse
    assert run("dlinear", training=FAST, data_dir=folder).calendar == ""


def test_equal_seeds_give_equal_errors_and_the_callers_random_state_stays(folder):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    asked = {"training": FAST, "settings": {"width": 16, "heads": 2}, "data_dir": folder}
    first, again = (run("itransformer", seed=7, **asked) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.mse, first.validation_loss) == (again.mse, again.validation_loss)
    assert run("itransformer", seed=8, **asked).mse != first.mse


def test_the_commit_is_that_at_the_start_of_the_run(folder, monkeypatch):
    commits = ["at the start"]
    monkeypatch.setattr(provenance, "commit", lambda: commits[-1])

    class Moves(train.Silent):
        def begin(self, epochs, windows, done):
            commits.append("meanwhile")

    row = run("dlinear", training=FAST, data_dir=folder, progress=Moves())
    assert (row.commit, commits[-1]) == ("at the start", "meanwhile")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
def test_a_cuda_device_gives_the_same_errors(folder):
    asked = {"training": FAST, "data_dir": folder}
    here, there = run("dlinear", **asked), run("dlinear", **{**asked, "device": "cuda"})
    assert there.mse == pytest.approx(here.mse, rel=1e-3)
    assert there.device == torch.cuda.get_device_name()
    assert there.peak_memory_bytes > 0


def test_resuming_skips_what_is_done(folder, monkeypatch):
    asked = {"training": FAST, "data_dir": folder, "results": folder / "out" / "results.csv"}
    row = run("dlinear", **asked)
    other = run("dlinear", seed=1, resume=True, **asked)
    assert bench.read(asked["results"]) == [row, other]
    monkeypatch.setattr(forecasting.train, "fit", lambda *_, **__: pytest.fail("it was trained again"))
    assert run("dlinear", resume=True, **asked) == row
    assert run("dlinear", resume=True, **{**asked, "training": {**FAST, "checkpoint_every": 1}}) == row
    assert bench.read(asked["results"]) == [row, other]


def test_other_numbers_are_another_run(folder):
    asked = {"data_dir": folder, "results": folder / "results.csv", "resume": True}
    run("seasonal_naive", **asked)
    write(folder / "small.csv", end="\r\n")
    run("seasonal_naive", **asked)
    assert len(bench.read(asked["results"])) == 1
    write(folder / "small.csv", numbers() + 1)
    run("seasonal_naive", **asked)
    assert len({row.values_sha256 for row in bench.read(asked["results"])}) == 2


def test_a_run_cut_off_goes_on_from_its_checkpoint(folder):
    asked = {"training": FAST, "settings": {"width": 16, "heads": 2}, "data_dir": folder}
    whole = run("itransformer", **asked)
    asked |= {"results": folder / "results.csv", "checkpoint": folder / "checkpoints"}
    with pytest.raises(MemoryError):
        run("itransformer", **{**asked, "progress": Stops(MemoryError)})
    assert len(list(asked["checkpoint"].iterdir())) == 1
    another, same = Remembers(), Remembers()
    run("itransformer", resume=True, **{**asked, "seed": 1, "progress": another})
    row = run("itransformer", resume=True, **{**asked, "progress": same})
    assert (another.before, same.before) == (0, whole.train_windows)
    assert (row.mse, row.validation_loss, row.epochs) == (whole.mse, whole.validation_loss, 2)
    assert row.total_seconds >= row.train_seconds
    assert not list(asked["checkpoint"].iterdir())


def test_a_checkpoint_left_behind_by_a_run_that_has_its_row_goes(folder):
    asked = {"training": FAST, "settings": {"width": 16, "heads": 2}, "data_dir": folder}
    asked |= {"results": folder / "results.csv", "checkpoint": folder / "checkpoints"}
    with pytest.raises(MemoryError):
        run("itransformer", **{**asked, "progress": Stops(MemoryError)})
    (left,) = asked["checkpoint"].iterdir()
    content = left.read_bytes()
    row = run("itransformer", resume=True, **asked)
    left.write_bytes(content)
    assert run("itransformer", resume=True, **asked) == row
    assert not left.exists()


def test_ctrl_c_leaves_no_row(folder):
    results = folder / "results.csv"
    with pytest.raises(KeyboardInterrupt):
        run("dlinear", training=FAST, data_dir=folder, results=results, progress=Stops(KeyboardInterrupt))
    assert not results.exists()


def test_a_file_of_another_checksum_is_reported(shelf, tmp_path):
    catalogue.register(replace(SMALL, sha256=("0" * 64,)))
    write(tmp_path / "small.csv")
    with pytest.warns(RearviewWarning, match=r"small\.csv differs from the copy of Small"):
        run("seasonal_naive", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("model", "asked", "message"),
    [
        ("dlinear", {"protocol": "published:nobody"}, "no protocol 'published:nobody'"),
        ("dlinear", {"training": {"seed": 3}}, "use seed="),
        ("dlinear", {"training": {"epoch": 3}}, "training has no setting 'epoch'. Did you mean 'epochs'"),
        ("dlinear", {"settings": {"width": 3}}, "dlinear has no setting 'width'"),
        ("dlinear", {"settings": {"calendar": False}}, "dlinear has no setting 'calendar'"),
        ("dlinear", {"attention": "softmax"}, "dlinear has no attention to replace"),
        ("itransformer", {"settings": {"calendar": "h"}}, "calendar is 'h'; it must be True or False"),
        ("seasonal_naive", {"training": {"epochs": 3}}, "seasonal_naive has nothing to train"),
        ("dlinear", {"horizon": 0}, "horizon is 0"),
        ("dlinear", {"horizon": 60}, "need 89 rows, but the validation part has 80"),
        ("dlinear", {"resume": True}, "resume=True needs something to go on from"),
        ("dlinaer", {}, "no model called 'dlinaer'. Did you mean 'dlinear'"),
    ],
)
def test_what_can_not_be_run_is_refused(folder, model, asked, message):
    with pytest.raises(SettingsError, match=message):
        run(model, **{"data_dir": folder, **asked})


def test_a_set_of_many_series_is_refused(folder):
    panel = catalogue.load("Small", folder)
    several = replace(panel, ids=("a", "b"), offsets=np.array([0, 200, ROWS]))
    with pytest.raises(SettingsError, match="Small holds 2 series"):
        split(several, SMALL, LOOKBACK, HORIZON)


def test_a_place_that_takes_no_row_is_refused_before_training(folder, monkeypatch):
    monkeypatch.setattr(forecasting.train, "fit", lambda *_, **__: pytest.fail("it was trained"))
    with pytest.raises(InputError, match="no results file"):
        run("dlinear", data_dir=folder, results=folder / "small.csv")
    with pytest.raises(InputError, match="is no folder"):
        run("dlinear", data_dir=folder, results=folder / "small.csv" / "results.csv")
