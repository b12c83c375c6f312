"""One run for `test_parallel.py`, started alone or by torchrun: prints its losses and forecasts."""

import json
import os
import sys
import weakref

import torch

from rearview import models, train
from rearview.data.windows import Batch
from rearview.tasks.objectives import Forecast
from rearview.train import parallel

WINDOWS, CHANNELS, LOOKBACK, HORIZON = 53, 3, 16, 4


class Generated:
    """Windows of a fixed random series, some of their future cells missing."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.cells = torch.randn(WINDOWS, CHANNELS, LOOKBACK + HORIZON, generator=generator)
        self.observed = torch.rand(WINDOWS, CHANNELS, HORIZON, generator=generator) > 0.2

    def batch(self, index: torch.Tensor) -> Batch:
        cells = self.cells[index]
        past, future = cells[..., :LOOKBACK], cells[..., LOOKBACK:]
        return Batch(past, future, None, self.observed[index], None, None, torch.zeros(len(index), dtype=torch.long))


def main(batch: int) -> None:
    torch.manual_seed(3 + int(os.environ.get("RANK", "0")))  # every process would begin elsewhere
    model = models.create(
        "itransformer", channels=CHANNELS, lookback=LOOKBACK, steps=HORIZON, width=8, heads=2, feed_forward=8,
        dropout=0.0,
    )  # fmt: skip
    settings = train.Settings(epochs=3, batch=batch, learning_rate=1e-2, clip=1.0, seed=1)
    index = torch.arange(WINDOWS)
    history = train.fit(model, Forecast(HORIZON), Generated(), index[:45], index[45:], settings)
    if not parallel.rank():
        with torch.no_grad():
            forecasts = model(Generated().batch(index[45:]).past).flatten().tolist()
        losses = [(epoch.train_loss, epoch.validation_loss) for epoch in history.epochs]
        found = {"processes": parallel.size(), "losses": losses, "forecasts": forecasts}
        sys.stdout.write(json.dumps(found) + "\n")
    if parallel.size() > 1:
        group = weakref.ref(torch.distributed.group.WORLD)
        parallel.end()
        if group() is not None:
            raise SystemExit("Somebody holds the group: its threads would abort a process that ends.")


main(int(sys.argv[1]))
