"""The palindrome that token hosts fill: normalise, tokenise, mix, detokenise, denormalise."""

from abc import abstractmethod

from rearview.attention.contract import Mask, Tokens, Weights
from rearview.embed import Normalise
from rearview.models.contract import Marks, Model, Past, Real, Shape, Steps
from rearview.models.stack import Stack


class Encoder(Model):
    """A network of one stack between a tokeniser and a head."""

    normalise: Normalise
    stack: Stack

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)

    @abstractmethod
    def tokenise(self, x: Past, past_marks: Marks | None, future_marks: Marks | None) -> Tokens:
        """Tokens of a normalised window."""

    @abstractmethod
    def detokenise(self, tokens: Tokens) -> Steps:
        """The steps asked for, on the normalised scale."""

    def token_mask(self, mask: Real) -> Mask | None:
        """Which tokens are real, for a window that reaches back before its series began."""
        return None

    def forward(
        self,
        past: Past,
        past_marks: Marks | None = None,
        future_marks: Marks | None = None,
        *,
        mask: Real | None = None,
    ) -> Steps:
        x, denormalise = self.normalise(past, mask)
        tokens = self.tokenise(x, past_marks, future_marks)
        tokens = self.stack(tokens, None if mask is None else self.token_mask(mask), windows=x)
        x = self.detokenise(tokens)
        return denormalise(x)

    def weights(
        self,
        past: Past,
        past_marks: Marks | None = None,
        future_marks: Marks | None = None,
        *,
        mask: Real | None = None,
    ) -> list[Weights]:
        x, _ = self.normalise(past, mask)
        tokens = self.tokenise(x, past_marks, future_marks)
        return self.stack.weights(tokens, None if mask is None else self.token_mask(mask), windows=x)

    def prepare(self, windows: Past) -> None:
        self.stack.prepare(windows)
