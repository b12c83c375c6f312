"""When to stop: patience with a validation loss that no longer falls."""

import math
from dataclasses import dataclass

from rearview.train.settings import Settings


@dataclass(frozen=True, slots=True)
class Patience:
    """The best validation loss so far and the epochs since."""

    best: float = math.inf
    waited: int = 0

    def after(self, loss: float, settings: Settings) -> "Patience":
        """Patience after an epoch with this validation loss; `waited` is 0 exactly where it improved."""
        bar = self.best - settings.minimum_delta
        improved = loss < bar or (settings.ties_improve and loss == bar)
        return Patience(loss, 0) if improved else Patience(self.best, self.waited + 1)

    def spent(self, settings: Settings) -> bool:
        """Whether it is time to stop."""
        return settings.patience is not None and self.waited >= settings.patience
