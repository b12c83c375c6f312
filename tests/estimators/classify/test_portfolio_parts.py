"""The parts of a portfolio by themselves: ridge, trees, warping, vote."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rearview.estimators.classify.portfolio import ridge as ridges
from rearview.estimators.classify.portfolio.forest import TRIED, grow_forest, load_forest
from rearview.estimators.classify.portfolio.members import draw_folds, nearest_by_class
from rearview.estimators.classify.portfolio.ridge import Streamed, fit_ridge
from rearview.estimators.classify.portfolio.vote import fit_vote
from rearview.estimators.classify.portfolio.warping import warped_distances

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "features_aeon.npz")


def blobs(cases=40, features=90, classes=3, seed=0):
    random = np.random.default_rng(seed)
    codes = random.integers(classes, size=cases)
    X = random.standard_normal((cases, features))
    X[:, :5] += codes[:, None]
    return torch.from_numpy(X), torch.from_numpy(codes)


def test_ridge_is_that_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(ridges, "PENALTIES", tuple(np.logspace(-3, 3, 10)))
    X, codes = torch.from_numpy(GOLDEN["ridge_X"]), torch.from_numpy(GOLDEN["ridge_y"])
    fit = fit_ridge(X, codes, 3, np.arange(len(X)))
    assert fit.penalty == pytest.approx(float(GOLDEN["ridge_alpha"]))
    np.testing.assert_allclose(fit.ridge.decide(X).numpy(), GOLDEN["ridge_decision"], atol=1e-10)
    targets = 2 * np.eye(3)[codes] - 1
    errors = (fit.left_out.numpy() - targets) ** 2
    assert errors.mean() == pytest.approx(GOLDEN["ridge_errors"].min(), rel=1e-5)


def test_answers_left_out_are_those_of_fits_without_the_fold():
    X, codes = blobs()
    folds = np.arange(40) % 7
    fit = fit_ridge(X, codes, 3, folds)
    for fold in range(7):
        without = fit_at(X[folds != fold], codes[folds != fold], fit.penalty)
        np.testing.assert_allclose(fit.left_out[folds == fold], without.decide(X[folds == fold]), atol=1e-5)


def fit_at(X, codes, penalty):
    """The classifier of one penalty, by sums."""
    centre = X.mean(0)
    targets = 2 * torch.nn.functional.one_hot(codes, 3).double() - 1
    products = (X - centre).T @ (X - centre) + penalty * torch.eye(X.shape[1])
    weights = torch.linalg.solve(products, (X - centre).T @ (targets - targets.mean(0)))
    return ridges.Ridge(weights, targets.mean(0) - centre @ weights)


def test_a_case_that_is_left_out_takes_its_features_along():
    X, codes = blobs(30, 20)
    own = torch.where(
        torch.eye(30).bool(), 5.0 * (2 * codes - 2)[:, None], 0.0
    ).double()  # each tells its own case alone
    both = torch.cat([X, own], dim=1)
    sources = torch.cat([torch.full((20,), -1), torch.arange(30)])
    folds = np.arange(30) % 5
    honest, plain = fit_ridge(both, codes, 3, folds, sources), fit_ridge(X, codes, 3, folds)
    same = fit_ridge(both[:, :20], codes, 3, folds, sources[:20])
    np.testing.assert_allclose(same.left_out, plain.left_out, atol=1e-6)
    assert honest.left_out.isfinite().all()


def test_sums_over_portions_give_the_classifier_of_all_cases():
    X, codes = blobs(50, 8)
    sums = Streamed(8, 3)
    for part in torch.arange(50).split(17):
        sums.add(X[part].float(), codes[part])
    np.testing.assert_allclose(sums.solve(2.0).decide(X.float()), fit_at(X, codes, 2.0).decide(X), atol=1e-4)


def test_trees_tell_classes_apart_and_answer_for_cases_they_did_not_draw():
    X, codes = blobs(90, 12)
    forest, left_out = grow_forest(X.float(), codes, 3, np.random.default_rng(0), trees=60)
    assert (forest.vote(X.float()).argmax(1) == codes).float().mean() > 0.95
    known = left_out.isfinite().all(1)
    assert known.all()
    np.testing.assert_allclose(left_out.sum(1), 1, atol=1e-5)
    honest = (left_out.argmax(1) == codes).float().mean()
    assert 0.6 < honest < 0.95
    shuffled = codes[torch.randperm(90, generator=torch.Generator().manual_seed(0))]
    _, chance = grow_forest(X.float(), shuffled, 3, np.random.default_rng(0), trees=60)
    assert (chance.argmax(1) == shuffled).float().mean() < 0.55


class Largest(TorchDispatchMode):
    """The most numbers that one operation wrote."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.numbers = max([self.numbers, *(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))])
        return out


def test_a_forest_needs_no_more_memory_for_many_classes():
    cases, features, trees = 600, 100, 30
    codes = torch.arange(cases) % 300
    X = torch.randn(300, features)[codes] + 0.1 * torch.randn(cases, features)
    with Largest() as largest:
        forest, left_out = grow_forest(X, codes, 300, np.random.default_rng(0), trees=trees)
        votes = forest.vote(X)
    assert largest.numbers <= cases * max(300, features * TRIED * trees)
    assert len(forest.entry_classes) <= trees * cases
    assert (votes.argmax(1) == codes).float().mean() > 0.95
    np.testing.assert_allclose(votes.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(left_out.sum(1), 1, atol=1e-5)


def test_a_forest_saved_with_the_shares_of_all_classes_is_read():
    X, codes = blobs(90, 12)
    forest, _ = grow_forest(X.float(), codes, 3, np.random.default_rng(0), trees=7)
    counts = forest.first.diff()
    node = torch.arange(len(counts)).repeat_interleave(counts)
    shares = torch.zeros(len(counts), 3)
    shares[node, forest.entry_classes] = forest.entry_shares
    before = {name: getattr(forest, name) for name in ("features", "thresholds", "children")}
    read = load_forest({**before, "shares": shares.view(*forest.features.shape, 3)})
    assert torch.equal(read.vote(X.float()), forest.vote(X.float()))
    assert torch.equal(load_forest(forest.tensors()).vote(X.float()), forest.vote(X.float()))


@pytest.mark.parametrize("band", [0, 1, 2, 5, 12])
def test_warped_distances_are_those_of_the_recursion(band):
    random = np.random.default_rng(0)
    ones, others = random.standard_normal((3, 2, 13)), random.standard_normal((5, 2, 13))
    ours = warped_distances(torch.from_numpy(ones), torch.from_numpy(others), band)
    theirs = [[warp(one, other, band) for other in others] for one in ones]
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_warped_distances_are_those_of_aeon():
    aeon = np.load(Path(__file__).parents[2] / "golden" / "features_aeon_drawn.npz")
    ones, others = torch.from_numpy(aeon["warp_ones"]), torch.from_numpy(aeon["warp_others"])
    for share, theirs in zip(aeon["warp_shares"], aeon["warp"], strict=True):
        np.testing.assert_allclose(warped_distances(ones, others, round(share * ones.shape[-1])), theirs, atol=1e-10)


def warp(one, other, band):
    steps = one.shape[1]
    cost = np.full((steps + 1, steps + 1), np.inf)
    cost[0, 0] = 0
    for i in range(steps):
        for j in range(max(0, i - band), min(steps, i + band + 1)):
            apart = ((one[:, i] - other[:, j]) ** 2).sum()
            cost[i + 1, j + 1] = apart + min(cost[i, j], cost[i, j + 1], cost[i + 1, j])
    return cost[steps, steps]


def test_a_class_is_as_near_as_its_nearest_case():
    distances = torch.tensor([[4.0, 9.0, 1.0], [torch.inf, 16.0, 25.0]])
    near = nearest_by_class(distances, torch.tensor([0, 1, 0]), 3)
    np.testing.assert_allclose(near, [[-1, -3, -5], [-5, -4, -5]])


def test_the_vote_prefers_who_is_right_and_sharpens_who_is_shy():
    random = np.random.default_rng(0)
    codes = torch.from_numpy(random.integers(3, size=200))
    right = torch.nn.functional.one_hot(codes, 3) * 0.2 + torch.from_numpy(0.05 * random.standard_normal((200, 3)))
    noise = torch.from_numpy(random.standard_normal((200, 3)))
    vote = fit_vote(torch.stack([right, noise]), codes)
    assert vote.factors[0] > 10 > 1 > vote.factors[1]
    assert vote.weights[0] * vote.factors[0] > 100 * vote.weights[1] * vote.factors[1]
    likely = vote.combine(torch.stack([right, noise]))
    assert likely.gather(1, codes[:, None]).mean() > 0.9


def test_probabilities_of_the_vote_are_as_sure_as_they_are_right():
    random = np.random.default_rng(1)
    codes = torch.from_numpy(random.integers(2, size=4_000))
    signal = torch.from_numpy(random.standard_normal(4_000)) + (2 * codes - 1)
    decisions = torch.stack([-signal, signal], dim=1)[None] * 7
    likely = fit_vote(decisions, codes).combine(decisions)
    sure, right = likely.max(1).values, likely.argmax(1) == codes
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.0)):
        some = (sure >= low) & (sure < high)
        assert right[some].double().mean() == pytest.approx(float(sure[some].mean()), abs=0.05)


def test_every_fold_has_its_share_of_every_class():
    codes = np.repeat([0, 1, 2], [50, 20, 3])
    folds = draw_folds(codes, 10, np.random.default_rng(0))
    assert np.bincount(folds).tolist() == [8, 8, 8, 7, 7, 7, 7, 7, 7, 7]
    assert np.bincount(folds[codes == 1]).tolist() == [2] * 10


def rare_and_common(cases=2_000, share=0.02, seed=0):
    """A rare class whose numbers lean towards the common one, as those of a linear classifier do."""
    random = np.random.default_rng(seed)
    codes = torch.from_numpy((np.arange(cases) < share * cases).astype(np.int64))
    score = torch.from_numpy(random.standard_normal(cases)) * 0.15 + codes * 0.9 - 1
    return torch.stack([-score, score], dim=1)[None], codes


def test_a_rare_class_is_answered_as_often_as_it_is_likely():
    decisions, codes = rare_and_common()
    assert decisions[0].argmax(1).sum() < 0.5 * codes.sum()
    likely = fit_vote(decisions, codes).combine(rare_and_common(seed=1)[0])
    assert (likely[codes == 1].argmax(1) == 1).double().mean() > 0.8
    assert (likely[codes == 0].argmax(1) == 0).double().mean() > 0.99
    assert float(likely[:, 1].mean()) == pytest.approx(0.02, abs=0.005)


def test_classes_of_equal_size_get_no_offset():
    X, codes = blobs(90, 12)
    codes = torch.arange(90) % 3
    decisions = torch.nn.functional.one_hot(codes, 3)[None] + 0.7 * X[None, :, :3]
    vote = fit_vote(decisions, codes)
    np.testing.assert_allclose(vote.offsets - vote.offsets[:, :1], 0, atol=1e-12)
