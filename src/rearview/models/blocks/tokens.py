"""Labels of tokens (a channel, a mark, which steps), so that attention's weights can be labelled."""

from dataclasses import replace

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
    starts = [place * patches.stride - patches.padding[0] for place in range(patches.tokens)]
    spans = [(min(max(start, 0), lookback - 1), min(start + patches.patch, lookback)) for start in starts]
    return tuple(Token(steps=(first - lookback, end - lookback)) for first, end in spans)


def merged_tokens(tokens: tuple[Token, ...], size: int) -> tuple[Token, ...]:
    """Neighbours in time joined, so many at a time; the last one may have fewer."""
    merged = []
    for place in range(0, len(tokens), size):
        spans = [token.steps for token in tokens[place : place + size] if token.steps is not None]
        merged.append(replace(tokens[place], steps=(spans[0][0], spans[-1][1])))
    return tuple(merged)


def segment_tokens(steps: int, patch: int) -> tuple[Token, ...]:
    """Whole segments ahead, which end with the last step asked for; what the first has before it is made in vain."""
    count = -(-steps // patch)
    ends = (steps - patch * (count - 1 - place) for place in range(count))
    return tuple(Token(steps=(max(0, end - patch), end)) for end in ends)
