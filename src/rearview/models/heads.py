"""What a stack of tokens is read out by when something other than steps is asked for."""

import torch
from torch import Tensor, nn

from rearview.attention.contract import Mask, Tokens
from rearview.embed import Dropout
from rearview.models.contract import Logits


class Classes(nn.Module):
    """Logits from all tokens at once: padding blanked, flattened, dropped out, one linear map."""

    def __init__(self, features: int, classes: int, *, activate: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.activate = nn.GELU() if activate else nn.Identity()
        self.drop = Dropout(dropout)
        self.project = nn.Linear(features, classes)

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Logits:
        x: Tensor = self.drop(self.activate(tokens))
        if mask is not None:
            # Chosen, not multiplied: nothing that stands at padding, an infinity neither, may reach a class.
            x = torch.where(mask.unsqueeze(-1), x, 0)
        return self.project(x.flatten(1))
