"""The detection task: how far a window is from its reconstruction, or a row from its forecast.

A batch holds what should come out (`future`: the window itself, or the row after it) and which of its cells were
observed; only those count.
"""

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn

from rearview.tasks.pooling import add_penalty, sum_observed

if TYPE_CHECKING:
    from rearview.data.windows import Batch


class Detect:
    """Squared errors over the observed cells."""

    def errors(self, model: nn.Module, batch: "Batch") -> Float[Tensor, "batch channel time"]:
        """The squared error of every cell, whether it was observed or not."""
        output = model(batch.past, batch.past_marks, batch.future_marks, mask=batch.mask)
        return (output.float() - batch.future).square()

    def loss(self, model: nn.Module, batch: "Batch") -> tuple[Tensor, Tensor]:
        """Sum of the errors over the observed cells, and their number."""
        return add_penalty(model, *sum_observed(self.errors(model, batch), batch.observed))
