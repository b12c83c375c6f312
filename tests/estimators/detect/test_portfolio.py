"""The default detector: members against numbers worked out otherwise, their combination, streams, and what is saved."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from sensors import SHIFT, SPIKE, broken, fleet, ordinary
from torch import Tensor

from rearview import Detector
from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import tsb_ad
from rearview.data.datasets.labelled_arrays import from_arrays
from rearview.data.panel import Panel
from rearview.estimators.detect import storage
from rearview.estimators.detect.fit import Prepared
from rearview.estimators.detect.portfolio import members
from rearview.estimators.detect.portfolio import portfolio as portfolios
from rearview.estimators.detect.portfolio.members import (
    Clusters,
    Components,
    Neighbours,
    Shapes,
    find_centres,
    find_components,
)
from rearview.estimators.detect.portfolio.patches import average_errors, cut_windows, first_rows, pad
from rearview.estimators.detect.portfolio.portfolio import Portfolio
from rearview.estimators.detect.segments import _step_out
from rearview.estimators.detect.spec import DetectSpec
from rearview.models.features.contract import AT_ONCE

RANDOM = np.random.default_rng(0)


PREPARE = portfolios.network_fit.prepare


def quick_network(panel: Panel, spec: DetectSpec) -> Prepared:
    """The member that is a network with two epochs, which is all that these tests need of it."""
    if spec.model != "itransformer":
        return PREPARE(panel, spec)
    sizes = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}
    return PREPARE(panel, replace(spec, training={"epochs": 2}, settings=sizes))


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(portfolios.network_fit, "prepare", quick_network)
    patch.setattr(portfolios, "LEAST_NETWORK", 0)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return Detector(lookback=24, device="cpu", label_col="label").fit(ordinary())


def same(windows: Tensor) -> Tensor:
    return windows


def cut_all(values: Tensor, window: int, *, centred: bool = False) -> Tensor:
    return cut_windows(pad(values, window), window, first_rows(len(values), window), centred=centred)


def test_windows_are_cut_and_laid_back() -> None:
    values = torch.arange(22.0).reshape(11, 2)
    windows = cut_all(values, 5)
    assert windows.shape == (3, 10)  # they begin at rows 0, 4 and 6
    torch.testing.assert_close(windows[1], values[4:9].flatten())
    torch.testing.assert_close(average_errors(values, 5, same), values)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_short_windows_leave_out_no_row(window: int) -> None:
    values = torch.arange(13.0)[:, None]
    torch.testing.assert_close(average_errors(values, window, same), values)


def test_a_series_to_learn_from_that_is_shorter_than_a_window_is_padded() -> None:
    torch.testing.assert_close(cut_all(torch.tensor([[1.0], [2.0]]), 4), torch.tensor([[1.0, 1.0, 1.0, 2.0]]))


def test_members_of_shorter_windows_look_at_the_last_rows() -> None:
    rows = torch.from_numpy(RANDOM.normal(size=(400, 3)) @ RANDOM.normal(size=(3, 3)))
    windows, new = cut_all(rows, 6), torch.from_numpy(RANDOM.normal(size=(5, 6)))
    for kind in (Clusters, Neighbours):
        member = kind.fit(windows, np.random.default_rng(1))
        (points,) = member.tensors().values()
        wanted = torch.cdist(new, points[:, -6:].double()).amin(1).square()
        torch.testing.assert_close(member.shorten(2, 3).errors(new).sum(1), wanted)
    remembered = Neighbours.fit(windows, RANDOM)
    shapes = Shapes.of(remembered, 6).shorten(2, 3)
    torch.testing.assert_close(shapes.patches, Shapes.of(remembered.shorten(2, 3), 2).patches, atol=5e-3, rtol=0)
    member = Components.fit(windows, RANDOM)
    covariance = np.cov(windows.numpy().T, bias=True)
    inverse = np.linalg.inv(covariance[-6:, -6:] + float(member.ridge) * np.eye(6))
    wanted = np.square((new - windows.mean(0)[-6:]).numpy() @ inverse) / np.diag(inverse)
    np.testing.assert_allclose(member.shorten(2, 3).errors(new).numpy(), wanted, rtol=1e-2, atol=1e-2)


def test_the_first_rows_of_a_stream_are_no_alarm(fitted: Detector) -> None:
    detector = Detector(lookback=24, device="cpu", label_col="label").fit(ordinary())
    first = [detector.update(ordinary().iloc[row : row + 1])[0]["score"].iloc[0] for row in range(10)]
    assert max(first) < fitted.detect(broken()).scores.rows.max()
    assert np.mean(first) < detector.fitted.calibration.threshold_elsewhere


def test_long_series_are_judged_some_windows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.from_numpy(RANDOM.normal(size=(500, 3)))
    seen: list[int] = []

    def judge(windows: Tensor) -> Tensor:
        seen.append(len(windows))
        return (windows - 0.5).square()

    whole = average_errors(values, 10, judge, centred=True)
    assert seen == [len(first_rows(500, 10))]
    monkeypatch.setitem(AT_ONCE, "cpu", 4 * 10 * 3 * 7)
    torch.testing.assert_close(average_errors(values, 10, judge, centred=True), whole)
    assert max(seen[1:]) == 7
    assert sum(seen[1:]) == seen[0]


def test_centres_of_two_heaps_are_their_means() -> None:
    heaps = torch.tensor([[0.0, 0.0], [0.0, 2.0], [10.0, 10.0], [12.0, 10.0]])
    centres = find_centres(heaps, 2, np.random.default_rng(1))
    torch.testing.assert_close(centres[centres[:, 0].argsort()], torch.tensor([[0.0, 1.0], [11.0, 10.0]]))
    clusters = Clusters(centres)
    torch.testing.assert_close(clusters.errors(torch.tensor([[0.0, 4.0]])), torch.tensor([[0.0, 9.0]]))


def test_clusters_are_as_tight_as_those_of_scikit_learn() -> None:
    from sklearn.cluster import KMeans

    points = RANDOM.normal(size=(300, 6)) + 4 * RANDOM.integers(0, 2, size=(300, 6))
    ours = Clusters.fit(torch.from_numpy(points), np.random.default_rng(0))
    theirs = KMeans(len(ours.centres), n_init=1, random_state=0).fit(points)
    assert float(ours.errors(torch.from_numpy(points)).sum()) <= 1.1 * theirs.inertia_


def test_few_windows_have_few_centres() -> None:
    assert len(Clusters.fit(torch.ones(5, 3), RANDOM).centres) == 1
    assert len(Clusters.fit(torch.eye(3), RANDOM).centres) == 3


def test_the_nearest_remembered_window_counts() -> None:
    member = Neighbours.fit(torch.tensor([[0.0, 0.0], [5.0, 5.0]]), RANDOM)
    errors = member.errors(torch.tensor([[4.0, 5.0], [1.0, 0.0]]))
    torch.testing.assert_close(errors, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))


def test_a_shape_is_known_at_another_level() -> None:
    rows = torch.from_numpy(RANDOM.normal(size=(60, 2)))
    moved = rows + torch.tensor([7.0, -3.0])
    remembered = Neighbours.fit(cut_all(rows, 5), RANDOM)
    shapes = Shapes.of(remembered, 5)
    assert shapes.errors(cut_all(moved, 5, centred=True)).max() < 1e-4  # what is remembered has half precision
    assert float(remembered.errors(cut_all(moved, 5)).mean()) > 1


def test_of_wide_windows_fewer_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "REMEMBERED", 40)
    assert Neighbours.fit(torch.ones(30, 8), RANDOM).patches.shape == (5, 8)
    assert Neighbours.fit(torch.ones(30, 100), RANDOM).patches.shape == (1, 100)


def test_shapes_are_not_saved_and_come_back(fitted: Detector, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    names = load_file(next(tmp_path.glob("*.safetensors")))
    assert any(name.startswith("member.neighbours.") for name in names)
    assert not any(name.startswith("member.shapes.") for name in names)
    loaded = Detector.load(tmp_path).detect(broken()).scores
    np.testing.assert_array_equal(loaded.members["shapes"], fitted.detect(broken()).scores.members["shapes"])


def test_components_are_the_conditional_residuals_of_the_ridged_covariance() -> None:
    mixed = RANDOM.normal(size=(400, 3)) @ RANDOM.normal(size=(3, 7)) + 0.1 * RANDOM.normal(size=(400, 7))
    member = Components.fit(torch.from_numpy(mixed), RANDOM)
    covariance = np.cov(mixed.T, bias=True)
    inverse = np.linalg.inv(covariance + 0.1 * np.trace(covariance) / 7 * np.eye(7))
    new = RANDOM.normal(size=(5, 7))
    wanted = np.square((new - mixed.mean(axis=0)) @ inverse) / np.diag(inverse)
    values, vectors = find_components(torch.from_numpy(mixed) - member.mean, RANDOM)
    exact = Components(member.mean, vectors * (values / (values + member.ridge)).sqrt(), member.ridge)
    np.testing.assert_allclose(exact.errors(torch.from_numpy(new)).numpy(), wanted, rtol=1e-8)
    np.testing.assert_allclose(member.errors(torch.from_numpy(new)).numpy(), wanted, rtol=2e-2, atol=1e-3)
    assert member.axes.dtype == torch.float16


def test_missing_cells_of_a_window_are_what_the_others_imply() -> None:
    random = np.random.default_rng(1)
    mixed = random.normal(size=(200, 4)) @ random.normal(size=(4, 11)) + 0.1 * random.normal(size=(200, 11))
    windows = torch.tensor(mixed, dtype=torch.float32) + 3
    fit = Components.fit(windows, random)
    missing = np.zeros((3, 11), dtype=bool)
    missing[1, [2, 7]], missing[2, 1:] = True, True
    some = windows[:3].masked_fill(torch.tensor(missing), torch.nan)

    covariance = np.cov(windows.T.numpy(), bias=True) + fit.ridge.item() * np.eye(11)
    expected, mean = windows[:3].double().numpy(), fit.mean.double().numpy()
    for row, gone in zip(expected, missing, strict=True):
        weights = np.linalg.solve(covariance[~gone][:, ~gone], (row - mean)[~gone])
        row[gone] = mean[gone] + covariance[gone][:, ~gone] @ weights
    # Half precision holds the axes to five parts in ten thousand.
    np.testing.assert_allclose(fit.imply(some), expected, rtol=0, atol=0.01)
    assert fit.imply(windows) is windows


def test_cells_that_never_vary_are_far_off_by_what_they_move() -> None:
    windows = torch.from_numpy(RANDOM.normal(size=(50, 6)))
    windows[:, 2:] = 7.0
    member = Components.fit(windows, RANDOM)
    moved = windows[:1].clone()
    moved[0, 4] += 1
    np.testing.assert_allclose(member.errors(moved)[0, 2:].numpy(), [0, 0, 1 / float(member.ridge), 0], atol=1e-12)
    still = Components.fit(torch.full((5, 3), 2.0), RANDOM)
    assert not still.errors(torch.full((2, 3), 2.0)).any()


def test_many_cells_have_their_first_components(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = torch.from_numpy(RANDOM.normal(size=(200, 2)) @ RANDOM.normal(size=(2, 30)))
    exact = Components.fit(windows, RANDOM)
    monkeypatch.setattr("rearview.estimators.detect.portfolio.members.MOST_CELLS", 10)
    monkeypatch.setattr("rearview.estimators.detect.portfolio.members.COMPONENTS", 5)
    drawn = Components.fit(windows, RANDOM)
    torch.testing.assert_close(drawn.errors(windows), exact.errors(windows))


def test_the_default_is_a_portfolio_and_finds_both_anomalies(fitted: Detector) -> None:
    assert isinstance(fitted.fitted, Portfolio)
    found = fitted.detect(broken())
    for first, end in (SPIKE, SHIFT):
        assert found.flags[first:end].any()
    assert fitted.evaluate(broken()).auc_pr > 0.6
    by_peak = {found.panel.columns[part.channels[0][0]] for part in found.segments}
    assert by_peak & {"load", "heat"}


def test_members_and_channels_add_up_to_the_score(fitted: Detector) -> None:
    scores = fitted.detect(broken()).scores
    assert set(scores.members) == {"clusters", "neighbours", "components", "shapes", "itransformer"}
    np.testing.assert_allclose(np.sum(list(scores.members.values()), axis=0), scores.rows)
    np.testing.assert_allclose(scores.channels.mean(axis=1), scores.rows, rtol=1e-4)


def test_a_member_adds_to_the_score_by_its_weight(fitted: Detector) -> None:
    portfolio = fitted.fitted
    assert isinstance(portfolio, Portfolio)
    weights = portfolio.weights
    np.testing.assert_allclose(weights.known.sum(axis=1), 1)
    panel, _ = fitted.read_new(broken())
    alone = portfolios.compare(
        portfolio.errors(panel)["shapes"], portfolio.references["shapes"], panel, [0], portfolio.averaged
    )
    share = weights.known[0][list(portfolio.references).index("shapes")]
    plain, ranked = replace(portfolio, ranks=None).raw_scores(panel), portfolio.raw_scores(panel)
    np.testing.assert_allclose(plain.members["shapes"], share * alone.rows)
    np.testing.assert_allclose(ranked.members["shapes"] * plain.rows, plain.members["shapes"] * ranked.rows)


def test_one_channel_far_off_does_not_drown_the_others_where_roots_are_averaged(fitted: Detector) -> None:
    panel, _ = fitted.read_new(broken())
    reference = fitted.fitted.references["components"]
    errors = np.ones(panel.values.shape, dtype=np.float32) * reference.usual.known[0].astype(np.float32)
    errors[:, 0] *= 100
    plain, rooted = (
        portfolios.compare(errors, replace(reference, rooted=rooted, levels=np.ones(1), ranks=None), panel, [0], 1)
        for rooted in (False, True)
    )
    channels = panel.values.shape[1]
    np.testing.assert_allclose(np.expm1(plain.rows), (99 + channels) / channels, rtol=1e-5)
    np.testing.assert_allclose(np.expm1(rooted.rows), ((9 + channels) / channels) ** 2, rtol=1e-5)
    np.testing.assert_allclose(rooted.channels.mean(axis=1), rooted.rows, rtol=1e-5)


def test_with_few_rows_the_network_is_neither_trained_nor_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(portfolios, "LEAST_NETWORK", len(ordinary()) + 1)
    detector = Detector(lookback=24, device="cpu", label_col="label").fit(ordinary())
    assert detector.fitted.history is None
    assert "itransformer" not in detector.leaderboard()["name"].to_list()
    scores = detector.detect(broken()).scores
    assert set(scores.members) == {"clusters", "neighbours", "components", "shapes"}
    detector.save(tmp_path)
    np.testing.assert_array_equal(Detector.load(tmp_path).detect(broken()).scores.rows, scores.rows)


def test_members_speak_for_segments(fitted: Detector) -> None:
    _, segments = fitted.predict(broken())
    assert segments["members"].str.contains("clusters").all()
    part = fitted.detect(broken()).segments[0]
    assert sum(share for _, share in part.members) == pytest.approx(1)


def test_rows_in_the_shadow_of_an_anomaly_are_not_shown_as_part_of_it() -> None:
    two = np.array([1.0, 1.2, 2.0, 4.0, 4.0, 1.9, 1.4, 1.1, 1.5, 3.0, 6.0, 3.1, 2.9, 1.0])
    assert _step_out(two, 0, len(two)) == [(2, 5), (9, 12)]
    small_beside_large = np.array([10.0, 4.0, 1.0, 1.4, 1.6, 1.0, 0.7])
    assert _step_out(small_beside_large, 0, 7) == [(0, 1), (4, 6)]


def test_the_leaderboard_names_every_member(fitted: Detector) -> None:
    board = fitted.leaderboard()
    assert sorted(board["name"]) == ["clusters", "components", "itransformer", "neighbours", "shapes"]
    assert sum(board["weight"]) == pytest.approx(1)
    with pytest.raises(SettingsError, match="one network"):
        Detector("dlinear", lookback=24, training={"epochs": 1}).fit(ordinary()).leaderboard()


@pytest.mark.parametrize(
    "given", [{"model": "patchtst"}, {"attention": "toa"}, {"settings": {"depth": 1}}, {"mode": "forecast"}]
)
def test_a_network_that_is_asked_for_is_that_network_alone(given: dict) -> None:
    assert DetectSpec(**given).model == given.get("model", "itransformer")
    assert DetectSpec().model == "auto"


def test_saved_and_loaded_it_says_the_same_and_goes_on(fitted: Detector, tmp_path: Path) -> None:
    rows = broken()
    fitted.update(rows[:90])
    fitted.save(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    loaded = Detector.load(tmp_path)
    np.testing.assert_array_equal(loaded.detect(rows).scores.rows, fitted.detect(rows).scores.rows)
    np.testing.assert_array_equal(loaded.detect(rows).thresholds, fitted.detect(rows).thresholds)
    np.testing.assert_array_equal(loaded.fitted.weights.elsewhere, fitted.fitted.weights.elsewhere)
    pd.testing.assert_frame_equal(loaded.update(rows[90:])[0], fitted.update(rows[90:])[0])


def test_a_portfolio_saved_without_weights_hears_its_members_alike(
    fitted: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = storage._describe_portfolio

    def describe_earlier(portfolio: Portfolio) -> tuple[dict, dict]:
        facts, tensors = describe(portfolio)
        del facts["rooted"]
        return facts, {name: tensor for name, tensor in tensors.items() if "weights" not in name}

    monkeypatch.setattr(storage, "_describe_portfolio", describe_earlier)
    fitted.save(tmp_path)
    loaded = Detector.load(tmp_path).fitted
    np.testing.assert_allclose(loaded.weights.known, 0.2)
    assert not any(one.rooted for one in loaded.references.values())


@pytest.mark.parametrize("sizes", [(1, 1, 1, 60, 7, 130), (200,), (99, 101)])
def test_updates_say_what_predict_says_of_all_rows_so_far(fitted: Detector, sizes: tuple[int, ...]) -> None:
    detector = Detector(lookback=24, device="cpu", label_col="label")
    detector.adopt(fitted.fitted, fitted.read(ordinary())[0])
    rows, done = broken(), 0
    for size in sizes:
        flags, _ = detector.update(rows[done : done + size])
        done += size
        whole, _ = fitted.predict(rows[:done])
        pd.testing.assert_frame_equal(flags, whole[-size:].reset_index(drop=True), rtol=1e-4)
    with pytest.raises(InputError, match="were given already"):
        detector.update(rows[done - 1 : done])


def test_rows_left_out_between_updates_are_missing_rows(fitted: Detector) -> None:
    detector = Detector(lookback=24, device="cpu", label_col="label")
    detector.adopt(fitted.fitted, fitted.read(ordinary())[0])
    rows = broken()
    detector.update(rows[:50])
    flags, _ = detector.update(rows[53:100])
    assert len(flags) == 47
    gap = pd.concat([rows[:50], rows[53:100]])
    np.testing.assert_allclose(flags["score"][10:], fitted.predict(gap)[0]["score"][-37:], rtol=0.05)


def test_a_network_alone_is_updated_too() -> None:
    detector = Detector("dlinear", lookback=24, training={"epochs": 1}, label_col="label").fit(ordinary())
    rows = broken()
    detector.update(rows[:113])
    np.testing.assert_allclose(
        detector.update(rows[113:])[0]["score"], detector.predict(rows)[0]["score"][113:], rtol=1e-4
    )


def test_series_of_a_fleet_have_fits_of_their_own_and_strangers_the_shared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolios, "LEAST_OWN", 100)
    machines = fleet()
    detector = Detector(lookback=24, device="cpu", id_col="machine").fit(machines)
    assert detector.fitted.groups.tolist() == [1, 2]
    stranger = machines[machines["machine"] == "large"].assign(machine="new")
    both = pd.concat([machines, stranger], ignore_index=True)
    scores = detector.detect(both).scores.rows
    assert np.isfinite(scores).all()
    with pytest.raises(InputError, match="'new' was not seen in training"):
        detector.update(stranger)


def test_constant_and_binary_channels_are_no_hair_trigger_and_are_seen_to_move() -> None:
    rng = np.random.default_rng(3)
    learned, new = (
        ordinary(2000, seed).assign(still=5.0, valve=(rng.random(2000) < 0.02).astype(float)) for seed in (0, 1)
    )
    detector = Detector(lookback=24, device="cpu").fit(learned)
    assert detector.detect(new).flags.mean() < 0.1
    new.loc[300:320, "still"] = 6.0
    found = detector.detect(new)
    assert found.flags[300:321].all()
    named = next(part for part in found.segments if part.first <= 310 <= part.last).channels
    assert found.panel.columns[named[0][0]] == "still"


def test_anomalies_among_the_ordinary_rows_do_not_hide_others() -> None:
    learned = ordinary(1000)
    for first in (150, 500, 900):
        learned.loc[first : first + 8, "heat"] += 15
    clean = Detector(lookback=24, device="cpu", label_col="label").fit(ordinary(1000)).evaluate(broken())
    spoilt = Detector(lookback=24, device="cpu", label_col="label").fit(learned).evaluate(broken())
    assert spoilt.auc_pr > 0.6 * clean.auc_pr
    assert spoilt.auc_pr > 0.4


def test_anomalies_stand_out_from_channels_that_drift() -> None:
    detector = Detector(lookback=24, device="cpu", label_col="label").fit(ordinary(1000))
    still, drifting = broken(400), broken(400)
    for name in ("load", "heat"):
        drifting[name] += np.linspace(0, 2, 400) * ordinary(1000)[name].std()
    assert detector.evaluate(drifting).auc_pr > 0.9 * detector.evaluate(still).auc_pr


def test_a_file_that_judges_itself_is_not_remembered_with_its_anomalies() -> None:
    rows = broken(400)
    detector = Detector(lookback=24, device="cpu", label_col="label", threshold="robust").fit(rows)
    assert sorted(detector.leaderboard()["name"]) == ["components", "itransformer"]
    assert detector.evaluate(rows).auc_pr > 0.5
    assert detector.detect(rows).flags[slice(*SHIFT)].any()


def test_missing_cells_have_no_error_and_rows_without_any_no_score(fitted: Detector) -> None:
    rows = broken()
    rows.loc[30:32, ["load", "heat", "noise"]] = np.nan
    rows.loc[80, "heat"] = np.nan
    scores = fitted.detect(rows).scores
    assert np.isnan(scores.rows[30:33]).all()
    assert np.isfinite(np.delete(scores.rows, [30, 31, 32])).all()
    assert np.isnan(scores.channels[80, 1])
    assert np.isfinite(scores.channels[80, 0])


def test_a_sensor_that_falls_silent_is_not_blamed_on_the_others(fitted: Detector) -> None:
    rows = ordinary(300, seed=8, start="2024-06-01")
    silent = rows.assign(load=rows["load"].where(rows.index < 100))
    whole, gap = (fitted.predict(frame)[0].score.to_numpy()[100:] for frame in (rows, silent))
    assert np.quantile(gap, 0.9) < np.quantile(whole, 0.9) + 1

    broken_too = silent.copy()
    broken_too.loc[200:220, "heat"] += 15
    flags, segments = fitted.predict(broken_too)
    assert flags.anomaly[200:221].all()
    assert segments.channels[segments.score.argmax()].startswith("heat")


def test_files_of_tsb_ad_train_on_their_first_part() -> None:
    labels = np.zeros(4000)
    assert tsb_ad.training_rows(labels) == 1000
    labels[900] = 1
    assert tsb_ad.training_rows(labels) == 800
    labels[300] = 1
    assert tsb_ad.training_rows(labels) == 500
    arrays = {"train": np.zeros((10, 1)), "test": np.arange(4000.0)[:, None], "test_label": labels}
    whole = tsb_ad.cut(from_arrays(arrays, Path("x.npz")))
    assert len(whole.train.values) == 500
    assert len(whole.test.values) == 4000
    np.testing.assert_allclose(whole.train.original(slice(0, 500), 0)[:, 0], np.arange(500))


def test_the_period_is_the_highest_peak_of_the_autocorrelation() -> None:
    assert tsb_ad.find_period(np.sin(np.arange(2000) * 2 * np.pi / 37)) == 37
    assert tsb_ad.find_period(np.arange(2000.0)) == 125
