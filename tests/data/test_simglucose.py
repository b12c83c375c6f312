"""The meals of MICA's virtual patients: three a day, of the size that body and age ask for, alike every time."""

import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "make_simglucose", raising=False)
    import make_simglucose

    return make_simglucose


def test_a_days_carbohydrates_follow_from_the_basal_rate(maker):
    # 66.473 + 13.7516 * 70 + 5.0033 * 175 - 6.755 * 40 = 1634.5 kcal; times 1.2, 45 % of it, 4 kcal a gram.
    assert maker.daily_carbohydrates(maker.Person("adult#001", 70, 40)) == pytest.approx(220.65, abs=0.01)
    child, adult = (maker.Person(f"{name}#001", 40, 10) for name in ("child", "adult"))
    assert maker.daily_carbohydrates(child) < maker.daily_carbohydrates(adult)


def test_three_meals_a_day_in_order_and_alike_every_time(maker):
    person = maker.Person("adolescent#004", 60, 16)
    meals = maker.plan_meals(person, days=61, seed=1)
    assert len(meals) == 3 * 61
    assert meals == sorted(meals) == maker.plan_meals(person, days=61, seed=1)
    assert meals != maker.plan_meals(person, days=61, seed=2)
    assert all(at.second == at.microsecond == 0 for at, _ in meals)
    grams = np.array([size for _, size in meals])
    assert grams.mean() == pytest.approx(maker.daily_carbohydrates(person) / 3, rel=0.05)
    lunches = [at - maker.START - timedelta(days=day) for day, (at, _) in enumerate(meals[1::3])]
    assert np.mean([one.total_seconds() / 3600 for one in lunches]) == pytest.approx(12.5, abs=0.25)
