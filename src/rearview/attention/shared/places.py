"""Queries and keys of places: learned vectors p [token, width] under learned maps, the same for every window and group.

    q_t = W_Q p_t     k_j = W_K p_j

The product of two learned factors moves as far in a step of training as the queries and keys of tokens do, where
numbers of their own would move by the learning rate alone.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rearview.attention.site import Site


class Places(nn.Module):
    """A learned vector for each place of a site, and the maps that make a query and a key of it."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        self.vectors = nn.Parameter(torch.randn(site.tokens, site.width))
        self.compared = nn.Linear(site.width, 2 * site.heads * site.per_head, bias=site.projection_bias)

    def forward(self, tokens: int) -> tuple[Float[Tensor, "head token d"], Float[Tensor, "head token d"]]:
        """Queries and keys of the first places."""
        both = self.compared(self.vectors)[:tokens].unflatten(-1, (2, self.site.heads, self.site.per_head))
        q, k = both.transpose(0, 2).unbind(1)
        return q, k
