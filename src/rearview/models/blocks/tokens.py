"""What each token stands for (a channel, a mark, which steps), so that attention's weights can be labelled."""

from rearview.embed import Patches
from rearview.models.contract import Shape, Token


def channel_groups(shape: Shape) -> tuple[Token, ...]:
    """A channel each: what hosts keep apart that attend within a channel."""
    return tuple(Token("channel", index) for index in range(shape.channels))


def channel_tokens(shape: Shape) -> tuple[Token, ...]:
    """A channel each, over the whole look-back, then a mark each."""
    return (*channel_groups(shape), *(Token("mark", index) for index in range(shape.marks)))


def step_tokens(first: int, end: int) -> tuple[Token, ...]:
    """A step each, of all channels together."""
    return tuple(Token(steps=(step, step + 1)) for step in range(first, end))


def patch_tokens(patches: Patches, lookback: int) -> tuple[Token, ...]:
    """A patch each. Padding repeats the first step or the last one, so a patch of padding alone counts as that step."""
    starts = (place * patches.stride - patches.padding[0] for place in range(patches.tokens))
    return tuple(Token(steps=_within(start, start + patches.patch, lookback)) for start in starts)


def merged_tokens(tokens: tuple[Token, ...], size: int) -> tuple[Token, ...]:
    """Neighbours in time joined, so many at a time; the last one may have fewer."""
    return tuple(_merge(tokens[place : place + size]) for place in range(0, len(tokens), size))


def segment_tokens(steps: int, patch: int) -> tuple[Token, ...]:
    """Whole segments ahead, which end with the last step asked for; what the first has before it is made in vain."""
    count = -(-steps // patch)
    ends = (steps - patch * (count - 1 - place) for place in range(count))
    return tuple(Token(steps=(max(0, end - patch), end)) for end in ends)


def _within(start: int, end: int, lookback: int) -> tuple[int, int]:
    return min(max(start, 0), lookback - 1) - lookback, min(end, lookback) - lookback


def _merge(tokens: tuple[Token, ...]) -> Token:
    spans = [token.steps for token in tokens if token.steps is not None]
    return Token(tokens[0].of, tokens[0].index, (spans[0][0], spans[-1][1]))
