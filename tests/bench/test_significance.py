"""Statistics equal those of scipy and aeon, and say when they can say nothing."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rearview.bench.analysis import significance
from rearview.core.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden"


def drawn(blocks: int, candidates: int, seed: int, decimals: int = 6) -> np.ndarray:
    """Scores with shifts between candidates; few decimals make ties."""
    draw = np.random.default_rng(seed)
    return np.round(draw.normal(size=(blocks, candidates)) + 0.4 * np.arange(candidates), decimals)


@pytest.mark.parametrize("decimals", [6, 0])
def test_ranks_equal_scipy_with_ties(decimals):
    scores = drawn(13, 7, 3, decimals)
    assert np.array_equal(significance.ranks(scores), stats.rankdata(scores, axis=1))
    assert np.array_equal(significance.ranks(scores, lower_is_better=False), stats.rankdata(-scores, axis=1))
    assert np.allclose(significance.average_ranks(scores), stats.rankdata(scores, axis=1).mean(axis=0))


@pytest.mark.parametrize("blocks", [1, 2, 5, 11, 29, 50])
def test_signed_rank_equals_scipy_exactly(blocks):
    ours, theirs = drawn(blocks, 2, blocks).T
    found = significance.signed_rank(ours, theirs)
    expected = stats.wilcoxon(ours, theirs, method="exact")
    assert found == pytest.approx(expected.pvalue, rel=1e-12)


def test_signed_rank_counts_every_sign_pattern_of_ties_and_leaves_zeros_out():
    differences = np.array([0.0, 1.0, 1.0, -1.0, 2.0, 2.0, 3.0, 0.0, -3.0, 5.0])
    found = significance.signed_rank(differences, np.zeros(10))
    every = stats.wilcoxon(differences[differences != 0], method=stats.PermutationMethod(n_resamples=1_000_000))
    assert found == pytest.approx(every.pvalue, rel=1e-12)
    assert significance.signed_rank(np.ones(4), np.ones(4)) == 1.0


@pytest.mark.parametrize("decimals", [6, 1])
def test_signed_rank_of_many_blocks_is_normal(decimals):
    ours, theirs = drawn(331, 2, 5, decimals).T
    found = significance.signed_rank(ours, theirs)
    expected = stats.wilcoxon(ours, theirs, zero_method="wilcox", correction=False, method="approx")
    assert found == pytest.approx(expected.pvalue, rel=1e-9)


@pytest.mark.parametrize(("blocks", "candidates", "decimals"), [(5, 3, 6), (11, 4, 6), (7, 6, 0), (23, 9, 1)])
def test_friedman_equals_scipy(blocks, candidates, decimals):
    scores = drawn(blocks, candidates, 17, decimals)
    found = significance.friedman(scores)
    expected = stats.friedmanchisquare(*scores.T)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)
    assert (found.blocks, found.candidates) == (blocks, candidates)


def test_friedman_of_equals_finds_nothing():
    assert significance.friedman(np.ones((5, 3))).p_value == 1.0


def test_holm_by_hand_and_in_order():
    # Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06 (not below the one before), 0.4 x 1.
    assert significance.holm([0.4, 0.01, 0.03, 0.02]) == pytest.approx([0.4, 0.04, 0.06, 0.06])
    assert significance.holm([0.9, 0.8]) == [1.0, 1.0]
    assert significance.holm([]) == []


def test_records_count_blocks():
    ours, theirs = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 2.0, 1.0, 5.0])
    assert str(significance.record(ours, theirs)) == "2/1/1"
    assert str(significance.record(ours, theirs, lower_is_better=False)) == "1/1/2"


def test_cliques_are_stretches_without_any_difference_inside():
    apart = {(0, 2), (0, 3), (1, 3)}
    assert significance.cliques(4, lambda i, j: (i, j) in apart) == ((0, 1), (1, 2), (2, 3))
    # A difference deep inside splits a stretch although both ends are alike.
    assert significance.cliques(4, lambda i, j: (i, j) == (1, 2)) == ((0, 1), (2, 3))
    assert significance.cliques(3, lambda i, j: False) == ((0, 2),)
    assert significance.cliques(3, lambda i, j: True) == ()


def test_a_clear_winner_stands_apart_from_equals():
    draw = np.random.default_rng(2)
    base = draw.normal(size=20)
    scores = np.stack([base + draw.normal(0, 0.1, 20), base - 5, base + draw.normal(0, 0.1, 20)], axis=1)
    found = significance.judge(scores, ["a", "winner", "b"])
    assert found.names[0] == "winner"
    assert found.ranks[0] == 1.0
    assert found.cliques == ((1, 2),)
    assert {(pair.first, pair.second) for pair in found.significant} == {("winner", "a"), ("winner", "b")}
    assert not found.too_few
    upside_down = significance.judge(-scores, ["a", "winner", "b"], lower_is_better=False)
    assert upside_down.names == found.names
    assert upside_down.pairs == found.pairs


def test_few_blocks_are_reported():
    assert [significance.blocks_needed(candidates) for candidates in (2, 3, 6)] == [6, 7, 10]
    scores = np.arange(30.0).reshape(5, 6)
    found = significance.judge(scores, list("abcdef"))
    assert found.too_few
    assert found.significant == ()
    assert found.cliques == ((0, 5),)
    enough = significance.judge(np.arange(60.0).reshape(10, 6), list("abcdef"))
    assert not enough.too_few
    assert enough.cliques == ()


def test_two_candidates_need_no_friedman():
    found = significance.judge(np.array([[1.0, 2.0]] * 6), ["a", "b"])
    assert found.friedman is None
    assert found.pairs[0].p_value == pytest.approx(2 / 64)
    assert found.cliques == ()


def test_one_block_needs_no_friedman():
    found = significance.judge(np.arange(4.0)[None], list("abcd"))
    assert found.friedman is None
    assert found.significant == ()
    assert found.ranks == (1.0, 2.0, 3.0, 4.0)


def test_scores_that_are_missing_are_named():
    scores = drawn(3, 4, 1)
    scores[2, 1] = np.nan
    with pytest.raises(InputError, match="candidate 1 in block 2 is nan"):
        significance.judge(scores, list("abcd"))
    with pytest.raises(InputError, match=r"two candidates, but the shape is .3, 1"):
        significance.friedman(scores[:, :1])
    with pytest.raises(InputError, match="a name of its own"):
        significance.judge(drawn(3, 2, 1), ["a", "a"])


def test_the_bootstrap_interval_equals_scipy_and_is_the_same_twice():
    ours, theirs = drawn(17, 2, 7).T
    found = significance.bootstrap_interval(ours - theirs, level=0.9, draws=20_000)
    assert found == significance.bootstrap_interval(ours - theirs, level=0.9, draws=20_000)
    expected = stats.bootstrap(
        (ours - theirs,), np.mean, confidence_level=0.9, n_resamples=20_000, method="percentile", rng=3
    ).confidence_interval
    assert found.mean == pytest.approx(float(np.mean(ours - theirs)))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02)
    with pytest.raises(InputError, match="at least two blocks, but there is 1"):
        significance.bootstrap_interval(ours[:1] - theirs[:1])


@pytest.mark.parametrize("name", ["apart", "alike", "tied"])
def test_ranks_and_tests_equal_aeon(name: str):
    held = np.load(GOLDEN / "statistics_aeon.npz", allow_pickle=False)
    theirs = {key.removeprefix(f"{name}/"): held[key] for key in held.files if key.startswith(f"{name}/")}
    scores = theirs["input_scores"]
    found = significance.judge(scores, [str(place) for place in range(scores.shape[1])])
    assert found.names == tuple(map(str, theirs["output_order"]))
    assert found.ranks == pytest.approx(theirs["output_average_ranks"])
    assert found.friedman is not None
    assert found.friedman.p_value == pytest.approx(float(theirs["output_friedman_p"]))
    one_sided = theirs["output_one_sided_p"]
    for pair in found.pairs:
        share = one_sided[found.names.index(pair.first), found.names.index(pair.second)]
        if name == "tied":
            # With ties aeon's p-values are normal, ours counted.
            assert pair.p_value == pytest.approx(min(1, 2 * min(share, 1 - share)), abs=0.03)
        elif share < 0.5:
            assert pair.p_value == pytest.approx(2 * share)
    if found.friedman.p_value > significance.ALPHA:
        assert found.cliques == ((0, len(found.names) - 1),)
    else:
        bars = [tuple(np.flatnonzero(row)[[0, -1]].tolist()) for row in theirs["output_cliques"]]
        assert list(significance.cliques(len(found.names), lambda i, j: one_sided[i, j] <= significance.ALPHA)) == bars
