"""Every mechanism on the shelf keeps every promise of the contract, and the suite says how many it met."""

import pytest
from shelf_checks import CHECKS

from rearview import attention

NAMES = attention.names()


def test_the_suite_met_every_mechanism() -> None:
    assert {"caps", "mica", "prime", "rbca", "softmax", "toa"} <= set(NAMES)
    assert len(NAMES) >= 11
    assert len(CHECKS) == 26


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_mechanism(name: str, check) -> None:
    check(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_explains_itself(name: str) -> None:
    about = attention.describe(name)
    assert about.name == name
    assert about.summary == attention.summary(name)
    assert len(about.summary.split()) > 3
    assert all(setting.meaning for setting in about.settings)
    assert str(about).startswith(f"{name}: {about.summary}")
