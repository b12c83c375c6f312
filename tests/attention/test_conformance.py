"""Every mechanism on the shelf keeps every promise of the contract, and the suite says how many it met."""

import pytest

from rearview import attention
from rearview.testing import ATTENTION_PROMISES

NAMES = attention.names()


def test_the_suite_met_every_mechanism() -> None:
    assert {"caps", "mica", "prime", "rbca", "softmax", "toa"} <= set(NAMES)
    assert len(NAMES) >= 11
    assert len(ATTENTION_PROMISES) == 26


@pytest.mark.parametrize("promise", ATTENTION_PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_mechanism(name: str, promise) -> None:
    promise(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_explains_itself(name: str) -> None:
    about = attention.describe(name)
    assert about.name == name
    assert about.summary == attention.summary(name)
    assert len(about.summary.split()) > 3
    assert all(setting.meaning for setting in about.settings)
    assert str(about).startswith(f"{name}: {about.summary}")
