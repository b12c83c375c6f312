"""How a promise is found broken: an AssertionError with a sentence, whatever runs the tests."""

from collections.abc import Callable

from torch import Tensor
from torch.testing import assert_close

from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT


def expect(holds: bool | Tensor, otherwise: str) -> None:
    """Raise an AssertionError that says `otherwise`, unless something holds."""
    if not holds:
        raise AssertionError(otherwise)


def same(one: Tensor, other: Tensor, otherwise: str, tolerance: float = EXACT) -> None:
    """Expect two tensors of equal numbers, up to rounding in float64."""
    assert_close(one, other, rtol=tolerance, atol=tolerance, msg=lambda text: f"{otherwise}. {text}")


def refusal(call: Callable[..., object], *arguments: object, **named: object) -> str:
    """The sentence in which a call is refused; empty where it is not."""
    try:
        call(*arguments, **named)
    except SettingsError as error:
        return str(error)
    return ""
