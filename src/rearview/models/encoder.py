"""The palindrome that token hosts fill: normalise, tokenise, mix, detokenise, denormalise."""

from abc import abstractmethod
from typing import NamedTuple

from torch import nn

from rearview.attention.contract import Mask, Tokens, Weights
from rearview.embed import Normalise
from rearview.embed.normalise import Inverse
from rearview.models.contract import Logits, Marks, Model, Past, Real, Steps
from rearview.models.heads import Classes
from rearview.models.stack import Stack


class Read(NamedTuple):
    """A window on its way in: tokens, which of them are real, the normalised window, and the way back."""

    tokens: Tokens
    mask: Mask | None
    windows: Past
    denormalise: Inverse


class Encoder(Model):
    """A network of one stack between a tokeniser and a head; asked for classes, its head is a `Classes`."""

    normalise: Normalise
    stack: Stack
    head: nn.Module

    @abstractmethod
    def tokenise(self, x: Past, past_marks: Marks | None, future_marks: Marks | None) -> Tokens:
        """Tokens of a normalised window."""

    @abstractmethod
    def detokenise(self, tokens: Tokens) -> Steps:
        """The steps asked for, on the normalised scale."""

    def token_mask(self, mask: Real) -> Mask | None:
        """Which tokens are real, for a window that reaches back before its series began."""
        return None

    def read(self, past: Past, past_marks: Marks | None, future_marks: Marks | None, mask: Real | None) -> Read:
        """What the stack is given."""
        x, denormalise = self.normalise(past, mask)
        tokens = self.tokenise(x, past_marks, future_marks)
        return Read(tokens, None if mask is None else self.token_mask(mask), x, denormalise)

    def forward(
        self,
        past: Past,
        past_marks: Marks | None = None,
        future_marks: Marks | None = None,
        *,
        mask: Real | None = None,
    ) -> Steps | Logits:
        given = self.read(past, past_marks, future_marks, mask)
        tokens = self.stack(given.tokens, given.mask, windows=given.windows)
        if isinstance(self.head, Classes):
            return self.head(tokens, given.mask)
        return given.denormalise(self.detokenise(tokens))

    def weights(
        self,
        past: Past,
        past_marks: Marks | None = None,
        future_marks: Marks | None = None,
        *,
        mask: Real | None = None,
    ) -> list[Weights]:
        given = self.read(past, past_marks, future_marks, mask)
        return self.stack.weights(given.tokens, given.mask, windows=given.windows)

    def prepare(self, windows: Past) -> None:
        self.stack.prepare(windows)
