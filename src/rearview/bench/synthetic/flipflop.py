"""The flip-flop study (RBCA, sections 4.1 and S5.1): can a network write, ignore and read one bit?

A two-layer causal network reads a string and answers every read; what counts is the last read of strings with other
shares of ignored bits than it was trained on. Arms differ in how keys fade with age, head by head: not at all (mha),
exponentially (alibi), by a power law, by the similarity power law, or cut off (butterworth).

The paper leaves open, and we chose: rates of the heads (`rbca` with alpha=None: 0.25, 0.5, 0.75, 1 for the power law;
0.1, 0.5, 1, 2; ALiBi's slopes; scales 5, 10, 15, 20 of order 1), pre-norm blocks with gelu and four times the width in
between, no dropout, and a causal mask. Its 11,000 "epochs" can only be steps of fresh strings. Strings have the answer
behind a read, as the task's authors have it: it stands after the question, so a causal network can't peek, but it may
copy from an earlier read. In arms that end in `_blank` a blank stands there, as in S5.1, and the answer is asked for at
the blank; `mha_unmasked` is the first of these without a causal mask, which S5.1 says was removed in some arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention import Spec
from rearview.attention.contract import Site
from rearview.bench.rows.row import Facts
from rearview.bench.synthetic.study import Arrays, Measurement, Size, Study, SyntheticRow, Trial, fixed_generator
from rearview.data.synthetic.flipflop import (
    READ,
    SYMBOLS,
    WRITE,
    Strings,
    draw_strings,
    find_last_writes,
    hide_answers,
)
from rearview.embed import Learned
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.train.evaluation import evaluation_mode

SPARSE, DENSE = 0.98, 0.1
BINS = 20
"""Of the histograms of attention weights, from 0 to 1."""
KINDS = ("right bit", "right write", "wrong bits", "wrong writes")
LOOKED_AT = 256
"""Strings whose attention is taken down."""
AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipFlopRow(SyntheticRow):
    """The result of an arm of the flip-flop study: shares of last reads answered right, on fixed sets of strings."""

    same: float
    """Strings as in training."""
    sparse: float
    """Long stretches of ignored bits: what must be remembered lies far back."""
    dense: float
    """Many writes: what must be remembered lies close by."""
    sparse_late: float
    """Mean of `sparse` over the last quarter of the looks, since it goes up and down in training."""
    sparse_best: float
    """The best of all looks; picked on the test set, so no estimate of anything."""
    sparse_perfect: float
    """Share of the looks of the last quarter at which every read was right."""
    head: str
    """The head that looks hardest at the right bit, as layer.head from 1."""
    on_right_bit: float
    """Its mean weight, in sparse strings, of the last read on the bit it has to answer."""
    on_right_write: float
    """The same on the instruction before that bit."""
    on_wrong_bits: float
    """The same on each bit that an earlier write put down, a bit at a time."""
    on_wrong_writes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipFlopSize(Size):
    """Sizes of the flip-flop study."""

    length: int
    width: int
    heads: int = 4
    depth: int = 2
    ignore: float = 0.8
    """Share of ignored bits in training."""
    tested: int = 500
    """Strings in each test set."""


class Reader(nn.Module):
    """Symbols and absolute positions, a stack, and at every instruction the logits of the bit behind it.

    With `blank`, answers are hidden from it and asked for where they stood.
    """

    def __init__(self, size: FlipFlopSize, attention: Spec, *, blank: bool = False, causal: bool = True) -> None:
        super().__init__()
        self.blank = blank
        self.symbols = nn.Embedding(len(SYMBOLS) + blank, size.width)
        # As wide as the table of positions, or recency, which the first arm has from positions alone, would be drowned.
        nn.init.normal_(self.symbols.weight, std=0.02)
        self.positions = Learned(size.length, size.width)
        site = Site(
            groups=1, tokens=size.length, width=size.width, heads=size.heads, causal=causal, host="the flip-flop reader"
        )
        block = BlockSettings(feed_forward=4 * size.width, order="pre")
        self.stack = Stack(site, size.depth, block, attention, final_norm="layer")
        self.answer = nn.Linear(size.width, 2)

    def forward(self, text: Strings) -> Float[Tensor, "string pair 2"]:
        return self.answer(self.stack(self._tokens(text))[:, 0, int(self.blank) :: 2])

    def read_weights(self, text: Strings) -> Float[Tensor, "layer string head symbol"]:
        """Attention weights of the last read of each string, layer by layer and head by head."""
        layers = self.stack.weights(self._tokens(text))
        # A mechanism whose operator is a dict of parts has no single weight; those of this study are softmax-like.
        last_read = -1 if self.blank else -2
        return torch.stack([weights[:, 0, :, last_read] for weights in layers if isinstance(weights, Tensor)])

    def _tokens(self, text: Strings) -> Float[Tensor, "string 1 symbol width"]:
        return self.positions(self.symbols(hide_answers(text) if self.blank else text)[:, None])


class FlipFlopTrial(Trial[Strings]):
    """A reader that learns the bits behind reads, and its three test sets."""

    network: Reader

    def __init__(self, size: FlipFlopSize, arm: str, device: str) -> None:
        self.size, self.device = size, device
        unmasked = arm.endswith("_unmasked")
        blank = unmasked or arm.endswith("_blank")
        self.network = Reader(size, STUDY.spec(arm), blank=blank, causal=not unmasked).to(device)
        shares = {"same": size.ignore, "sparse": SPARSE, "dense": DENSE}
        self.sets = {
            name: draw_strings(size.tested, size.length, share, generator=fixed_generator(place)).to(device)
            for place, (name, share) in enumerate(shares.items())
        }

    def batch(self, index: Int[Tensor, " window"], /) -> Strings:
        return draw_strings(len(index), self.size.length, self.size.ignore, device=self.device)

    def loss(self, model: nn.Module, batch: Strings, /) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        logits = model(batch).float()
        missed = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1::2].flatten(), reduction="none")
        is_read = (batch[:, 0::2] == READ).flatten().to(missed.dtype)
        return (missed * is_read).sum(), is_read.sum()

    def measure(self) -> dict[str, float]:
        """The share of last reads answered right, set by set."""
        right = {}
        for name, text in self.sets.items():
            answers = torch.cat([self.network(part)[:, -1].argmax(-1) for part in text.split(AT_ONCE * 16)])
            right[name] = (answers == text[:, -1]).double().mean().item()
        return right

    def report(self, measured: Sequence[Measurement]) -> tuple[Facts, Arrays]:
        arrays = read_attention(self.network, self.sets["sparse"][:LOOKED_AT])
        layer, head = np.unravel_index(arrays["means"][..., 0].argmax(), arrays["means"].shape[:2])
        weights = zip(KINDS, arrays["means"][layer, head].tolist(), strict=True)
        sparse = [each.values["sparse"] for each in measured]
        late = sparse[-max(1, len(sparse) // 4) :]
        columns = {
            "sparse_late": sum(late) / len(late),
            "sparse_best": max(sparse),
            "sparse_perfect": sum(value == 1 for value in late) / len(late),
            "head": f"{layer + 1}.{head + 1}",
            **{f"on_{kind.replace(' ', '_')}": weight for kind, weight in weights},
        }
        return columns, arrays


def read_attention(network: Reader, text: Strings) -> Arrays:
    """Attention of the last read on right and wrong writes and their bits (the paper's figure 3), in every head.

    `shares` [layer, head, kind, bin] are histograms that sum to 1 over the weights of a kind, `means` [layer, head,
    kind] their means; kinds as in `KINDS`. The weights of a kind of which there is none are not a number.
    """
    with evaluation_mode(network):
        weights = torch.cat([network.read_weights(part) for part in text.split(AT_ONCE)], dim=1).float()
    instructions = text[:, 0::2]
    right = functional.one_hot(find_last_writes(instructions)[:, -1], instructions.shape[1]).bool()
    wrong = (instructions == WRITE) & ~right
    on = {"write": weights[..., 0::2], "bit": weights[..., 1::2]}
    kinds = (on["bit"], right), (on["write"], right), (on["bit"], wrong), (on["write"], wrong)
    edges = torch.linspace(0, 1, BINS + 1)
    layers, _, heads, _ = weights.shape
    shares = np.full((layers, heads, len(KINDS), BINS), np.nan)
    means = np.full(shares.shape[:-1], np.nan)
    for kind, (values, where) in enumerate(kinds):
        for layer, head in np.ndindex(shares.shape[:2]):
            chosen = values[layer, :, head][where].cpu().clamp(0, 1)
            if len(chosen):
                shares[layer, head, kind] = torch.histogram(chosen, edges).hist.numpy() / len(chosen)
                means[layer, head, kind] = chosen.mean().item()
    return {"shares": shares, "means": means}


STUDY = Study.declare("flipflop", FlipFlopRow, FlipFlopSize, FlipFlopTrial)
