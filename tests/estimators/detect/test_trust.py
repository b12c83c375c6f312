"""Which members to trust, learned from anomalies that are made in held-out rows."""

import numpy as np
import pytest
from sensors import fleet, ordinary

from rearview.data.panel import Panel
from rearview.estimators.detect.detector import Detector
from rearview.estimators.detect.portfolio import trust


@pytest.fixture(scope="module")
def rows() -> Panel:
    return Detector().read(ordinary(1_000))[0]


def make(rows: Panel, seed: int = 0) -> tuple[Panel, trust.Events]:
    varying = np.ones((rows.series, len(rows.columns)), dtype=bool)
    return trust.make_anomalies(rows, np.ones(varying.shape), varying, np.random.default_rng(seed))


def test_anomalies_are_made_where_they_are_said_to_be_and_nowhere_else(rows: Panel) -> None:
    made, events = make(rows)
    assert len(events) == 1_000 // trust.SPACING
    changed = (made.values != rows.values).any(axis=1)
    inside = np.zeros(len(changed), dtype=bool)
    for first, end in events.tolist():
        inside[first:end] = True
        assert changed[first:end].any()
        assert trust.SHORTEST <= end - first <= trust.LONGEST
    assert not changed[~inside].any()


@pytest.mark.parametrize("kind", trust.KINDS)
def test_every_kind_changes_what_moves(rows: Panel, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "KINDS", {kind: trust.KINDS[kind]})
    made, events = make(rows)
    assert all((made.values[first:end] != rows.values[first:end]).any() for first, end in events.tolist())
    assert np.isfinite(made.values).all()


def test_channels_that_never_vary_are_left_as_they_are(rows: Panel) -> None:
    varying = np.ones((1, len(rows.columns)), dtype=bool)
    varying[0, 1] = False
    made, _ = trust.make_anomalies(rows, np.ones(varying.shape), varying, np.random.default_rng(1))
    np.testing.assert_array_equal(made.values[:, 1], rows.values[:, 1])
    _, none = trust.make_anomalies(rows, np.ones(varying.shape), varying & False, np.random.default_rng(1))
    assert len(none) == 0


def test_a_member_that_finds_made_anomalies_weighs_more_than_one_that_guesses(rows: Panel) -> None:
    def judge(panel: Panel) -> list[trust.Rows]:
        seen = np.abs(panel.values - rows.values).sum(axis=1, dtype=np.float64)
        return [seen, np.random.default_rng(len(panel.values)).random(len(seen)), -seen]

    varying = np.ones((1, len(rows.columns)), dtype=bool)
    found = trust.learn_weights(judge, rows, np.ones(varying.shape), varying, np.array([0]), 1, seed=0)
    assert found.known.shape == (1, 3)
    assert found.known.sum() == pytest.approx(1)
    sees, guesses, errs = found.known[0]
    assert sees > 10 * guesses > 10 * errs


def test_series_without_made_anomalies_have_the_weights_of_all() -> None:
    machines, _ = Detector(id_col="machine").read(fleet())
    (a, b), (c, _) = machines.bounds()
    events = [np.array([[a + 10, a + 20]])]
    scores = np.zeros(len(machines.values))
    scores[a + 10 : a + 20] = 1
    found = trust.choose_weights([[scores, -scores]], events, machines, np.array([0, 2]), 3)
    assert b == c
    np.testing.assert_allclose(found.known[1], found.elsewhere)
    np.testing.assert_allclose(found.known[2], found.elsewhere)
    assert found.elsewhere[0] > 0.99


def test_without_any_made_anomaly_members_weigh_alike(rows: Panel) -> None:
    none = np.zeros((0, 2), dtype=np.int64)
    found = trust.choose_weights([[np.zeros(1_000)] * 4], [none], rows, np.array([0]), 1)
    np.testing.assert_allclose(found.known, 0.25)


def test_ties_count_half_and_rows_without_a_score_do_not_count() -> None:
    scores = np.array([0.0, 1.0, 1.0, np.nan, 1.0, 2.0])
    assert trust._rank([scores], [np.array([[4, 5]])]) == [(1 + 0.5 * 2) / 4]
    assert trust._rank([scores], [np.array([[3, 4]])]) == [0.5]
