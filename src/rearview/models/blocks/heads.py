"""The heads that turn tokens into the logits of classes, or into steps."""

from typing import Literal

import torch
from torch import Tensor, nn

from rearview.attention.contract import Mask, Tokens
from rearview.embed import Dropout
from rearview.models.contract import Logits, Shape

Pool = Literal["none", "mean"]


class Classes(nn.Module):
    """Logits from all tokens at once: padding blanked, dropped out, flattened, one linear map.

    With pool="mean" the real tokens of each group are averaged first, so that it does not matter where in time they
    stand; `features` is then the number of groups times the width, without the tokens.
    """

    def __init__(
        self, features: int, classes: int, *, activate: bool = False, dropout: float = 0.0, pool: Pool = "none"
    ) -> None:
        super().__init__()
        self.pool = pool
        self.activate = nn.GELU() if activate else nn.Identity()
        self.drop = Dropout(dropout)
        self.project = nn.Linear(features, classes)

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Logits:
        x: Tensor = self.drop(self.activate(tokens))
        if mask is not None:
            # Chosen, not multiplied: nothing that stands at padding, an infinity neither, may reach a class.
            x = torch.where(mask.unsqueeze(-1), x, 0)
        if self.pool == "mean":
            real = x.shape[2] if mask is None else mask.sum(2).clamp(min=1).unsqueeze(-1)
            x = x.sum(2) / real
        return self.project(x.flatten(1))


def choose_head(
    shape: Shape, features: int, all_features: int, *, dropout: float, activate: bool = False, pool: Pool = "none"
) -> nn.Module:
    """`Classes` of all features where classes are asked for, else a linear map of a channel's features to the steps."""
    if shape.asks == "classes":
        return Classes(all_features, shape.classes, activate=activate, dropout=dropout, pool=pool)
    return nn.Linear(features, shape.steps)
