"""The classification task: losses that pool, and a criterion that counts errors."""

import pytest
import torch
from torch import nn

from rearview import train
from rearview.data.cases.padding import CaseBatch
from rearview.tasks.objectives import Classify


class Told(nn.Module):
    """Gives its input's first channel back as logits, and remembers the mask."""

    def forward(self, past, *, mask=None):
        self.mask = mask
        return past[:, 0]


def batch(logits, labels):
    mask = torch.ones(len(logits), len(logits[0]), dtype=torch.bool)
    return CaseBatch(torch.tensor(logits)[:, None], mask, torch.tensor(labels))


LOGITS = [[2.0, 0.0, -1.0], [0.0, 3.0, 0.0], [0.0, 0.0, 50.0]]


def test_the_loss_is_a_sum_and_a_number():
    windows = batch(LOGITS, [0, 0, 2])
    model = Told()
    total, number = Classify().loss(model, windows)
    wanted = nn.functional.cross_entropy(torch.tensor(LOGITS), torch.tensor([0, 0, 2]), reduction="sum")
    torch.testing.assert_close(total, wanted)
    assert number == 3
    assert model.mask is windows.mask


def test_selection_counts_errors_and_breaks_ties_by_surprise():
    task = Classify()
    assert isinstance(task, train.SelectingTask)
    sure, number = task.validation(Told(), batch(LOGITS, [0, 0, 2]))
    less_sure, _ = task.validation(Told(), batch([[0.1, 0.0, 0.0], *LOGITS[1:]], [0, 0, 2]))
    wrong, _ = task.validation(Told(), batch(LOGITS, [1, 0, 2]))
    assert number == 3
    assert 1 < sure < less_sure < 1.01 < 2 < wrong


def test_without_a_tie_break_the_criterion_is_the_share_of_errors():
    total, number = Classify(tie_break=0.0).validation(Told(), batch(LOGITS, [1, 0, 0]))
    assert total / number == pytest.approx(1.0)


def test_one_sure_mistake_does_not_outweigh_the_rest():
    total, _ = Classify().validation(Told(), batch([[1e6, 0.0, 0.0]], [1]))
    assert total < 1.01
