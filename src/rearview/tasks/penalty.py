"""What a model itself asks training to keep small, beside the task's loss: DUET's idle experts."""

from jaxtyping import Float, Num
from torch import Tensor, nn


def add_penalty(
    model: nn.Module, total: Float[Tensor, ""], number: Num[Tensor, ""]
) -> tuple[Float[Tensor, ""], Num[Tensor, ""]]:
    """A sum of losses over `number` cells with the penalty of the forward pass just made: it joins the mean as it is.

    A model has none in evaluation, so weights are never selected by it; a module that is no model of ours never has.
    """
    ask = getattr(model, "penalty", None)
    asked = ask() if callable(ask) else None
    return (total, number) if asked is None else (total + asked * number, number)
