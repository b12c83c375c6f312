"""The encoder of T5 (Raffel et al., 2020) as a stack: pre-norm, RMS norms, no biases.

    x = x + drop(attend(rms(x)));   x = x + drop(W2 drop(relu(W1 rms(x))));   at the end rms(x)
    gated (T5 1.1, flan-T5):   W2 drop(gelu(W1 rms(x)) * V rms(x)), with the tanh form of gelu

T5 does not scale its scores. Ours are always scaled, here as everywhere: queries sqrt(d_h) times as large are the same
function, and weights that were trained without the scale are written so.
"""

from torch import nn

from rearview import attention
from rearview.attention.contract import Site
from rearview.models.stack import Block, BlockSettings, Stack


def t5_stack(
    site: Site, depth: int, feed_forward: int, dropout: float, spec: attention.Spec, *, gated: bool = False
) -> Stack:
    """T5's encoder with any attention; its feed-forward maps start at variance 1 / inputs, as T5's do."""
    settings = BlockSettings(
        feed_forward,
        norm="rms",
        norm_eps=1e-6,
        bias=False,
        order="pre",
        activation="gelu_tanh" if gated else "relu",
        gated=gated,
        dropout=dropout,
    )
    stack = Stack(site, depth, settings, spec, final_norm="rms")
    for block in stack.blocks:
        assert isinstance(block, Block)
        for part in block.feed_forward.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=part.in_features**-0.5)
    return stack
