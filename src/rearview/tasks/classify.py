"""The classification task: logits whose cross-entropy with the true classes is small.

Training minimises the cross-entropy. The best weights are picked by what counts in the end, the share of errors: a
network that learns few cases by heart grows ever surer of its mistakes, so that its cross-entropy on others rises long
before its predictions get worse.
"""

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.tasks.pooling import add_penalty

if TYPE_CHECKING:
    from rearview.data.cases.padding import CaseBatch

TIE_BREAK = 1e-4
"""Weight of the cross-entropy between epochs with equally many errors; below the share of one case in thousands."""
MOST_SURPRISED = 10.0
"""The most that one case adds to the tie-break, so that a single sure mistake does not decide it."""


class Classify:
    """Cross-entropy; selected by the share of errors, and between equals by the cross-entropy."""

    def __init__(self, tie_break: float = TIE_BREAK) -> None:
        self.tie_break = tie_break

    def logits(self, model: nn.Module, batch: "CaseBatch") -> Float[Tensor, "batch classes"]:
        """The logits of a batch."""
        return model(batch.past, mask=batch.mask).float()

    def loss(self, model: nn.Module, batch: "CaseBatch") -> tuple[Tensor, Tensor]:
        """Sum of cross-entropies, and the number of cases."""
        logits = self.logits(model, batch)
        total = functional.cross_entropy(logits, batch.labels, reduction="sum")
        return add_penalty(model, total, logits.new_full((), len(logits)))

    def validation(self, model: nn.Module, batch: "CaseBatch") -> tuple[Tensor, Tensor]:
        """Number of errors with the tie-break, and the number of cases."""
        logits = self.logits(model, batch)
        wrong = (logits.argmax(-1) != batch.labels).float()
        surprise = functional.cross_entropy(logits, batch.labels, reduction="none").clamp(max=MOST_SURPRISED)
        return (wrong + self.tie_break * surprise).sum(), logits.new_full((), len(logits))
