"""The base of token networks: normalise, tokenise, mix, detokenise, denormalise."""

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from rearview.attention.contract import Mask, Tokens
from rearview.embed import Normalise
from rearview.embed.normalisation import Inverse
from rearview.models.blocks.heads import Classes
from rearview.models.blocks.stack import Bias, Stack
from rearview.models.contract import Axes, Marks, Model, Output, Past, Real, RealSteps, Steps


class ReadWindow(NamedTuple):
    """A window on its way in: tokens, which of them are real, what is added to their scores, the normalised window,
    the way back, and what scores are multiplied by."""

    tokens: Tokens
    mask: Mask | None
    bias: Bias
    windows: Past
    denormalise: Inverse
    gate: Tensor | None = None


class StackHost(Model):
    """A network of one stack: `read` says what the stack is given, `detokenise` what its tokens are read out as.

    Asked for classes, its head is a `Classes`.
    """

    stack: Stack
    head: nn.Module

    @abstractmethod
    def read(self, past: Past, past_marks: Marks, future_marks: Marks, mask: Real) -> ReadWindow:
        """Turn a window into the inputs of the stack."""

    @abstractmethod
    def detokenise(self, tokens: Tokens) -> Steps:
        """The steps asked for, on the normalised scale."""

    @abstractmethod
    def token_axes(self) -> Axes:
        """Labels of the stack's groups and tokens."""

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Output:
        window = self.read(past, past_marks, future_marks, mask)
        tokens = self.stack(window.tokens, window.mask, window.bias, window.windows, window.gate)
        if isinstance(self.head, Classes):
            return self.head(tokens, window.mask)
        return window.denormalise(self.detokenise(tokens))

    def axes(self) -> list[Axes]:
        return [self.token_axes()] * len(self.stack.blocks)

    def prepare(self, windows: Past) -> None:
        self.stack.prepare(windows)


class Encoder(StackHost):
    """A network of one stack between a tokeniser of normalised windows and a head."""

    normalise: Normalise

    @abstractmethod
    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        """Tokens of a normalised window."""

    def token_mask(self, mask: RealSteps) -> Mask | None:
        """True on real tokens, for a window that reaches back before its series began."""
        return None

    def score_bias(self, tokens: Tokens) -> Bias:
        """The bias on the scores of all layers or of each, broadcastable to [batch, group, head, token, token]."""
        return None

    def read(self, past: Past, past_marks: Marks, future_marks: Marks, mask: Real) -> ReadWindow:
        x, denormalise = self.normalise(past, mask)
        tokens = self.tokenise(x, past_marks, future_marks)
        real = None if mask is None else self.token_mask(mask)
        return ReadWindow(tokens, real, self.score_bias(tokens), x, denormalise)
