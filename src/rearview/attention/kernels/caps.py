"""Linear attention whose memory fades channel by channel: `attention.caps.recurrence`, in parallel on a GPU.

    S_t = diag(exp(a_t)) S_(t-1) + k_t v_t^T,   o_t = S_t^T q_t,   a_t <= 0

Tokens are cut into chunks, chunks are joined in segments. Programs run side by side over segments (states) and over
chunks (results); only a scan from segment to segment is sequential:

1. `_states`: S at the border of each chunk counted from its segment's border, and at the segment's other end. Run
   backwards, with queries and gradients instead of keys and values, it gives the gradient of S behind each chunk.
2. `_scan`: S at the border of each segment.
3. `_output` and `_backward`: one chunk each. S is what was there at its segment's border, faded, plus the segment's
   own; from there on it runs token by token, all states of a few channels at once in registers.

No gate is ever divided by, and no sum of gates taken from another, which would lose all digits behind a gate of -1e6.
With X_t = diag(exp(a_t)) S_(t-1), what is left of the past when a token arrives, the gradient of a gate is that of S_t
times X_t: 0 exactly where a gate lets nothing through, whatever it is multiplied by afterwards. All of it is float32,
TF32 or not: a few operations for each number of a state, too little for tensor cores to matter.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap
from rearview.attention.kernels.operator import Operator

CHUNK = 16
WIDEST = 128
"""The widest values that a program can hold."""
NUMBERS = {"states": 128, "scan": 128, "output": 128, "backward": 128}
"""Numbers of a state that a program of each kernel works on at a time, for all tokens of a chunk."""
WARPS = 1
"""More would share the tokens of a chunk, which then pass one another their states through memory."""


@triton.jit
def _load(start, t, c, tokens, columns):
    """Rows t and columns c, 0 outside the tensor."""
    inside = (t[:, None] >= 0) & (t[:, None] < tokens) & (c[None, :] < columns)
    return tl.load(start + t[:, None] * columns + c[None, :], mask=inside, other=0.0)


@triton.jit
def _store(start, values, t, c, tokens, columns):
    tl.store(start + t[:, None] * columns + c[None, :], values, mask=(t[:, None] < tokens) & (c[None, :] < columns))


@triton.jit
def _join_steps(fade, added, next_fade, next_added):
    """Two steps of a recurrence x -> fade x + added as one."""
    return fade * next_fade, next_fade * added + next_added


@triton.jit
def _scan_fading(fade, added, REVERSE: tl.constexpr):
    """x_t = fade_t x_(t-1) + added_t along the first axis, from 0; backwards, x_t = fade_t x_(t+1) + added_t."""
    return tl.associative_scan((tl.broadcast_to(fade, added.shape), added), 0, _join_steps, reverse=REVERSE)[1]


@triton.jit
def _state(local, carried, border, chunk, segment, c, e, channels, values):
    """S at a chunk's border, for channels c and values e along two axes: the segment's own, and the rest, faded."""
    inside, at = (c < channels) & (e < values), c * values + e
    own = tl.load(local + chunk.to(tl.int64) * channels * values + at, mask=inside, other=0.0)
    outside = tl.load(border + segment * channels * values + at, mask=inside, other=0.0)
    return own + tl.exp(tl.load(carried + chunk * channels + c, mask=c < channels, other=0.0)) * outside


@triton.jit
def _states(
    X, Y, A, LOCAL, CARRIED, BORDER, TOTAL, tokens, channels, values, chunks, segments, per_segment,
    REVERSE: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    row, segment = tl.program_id(0).to(tl.int64) // segments, tl.program_id(0) % segments
    c, e = tl.program_id(1) * TILE + tl.arange(0, TILE), tl.arange(0, VALUES)
    x, a, y = X + row * tokens * channels, A + row * tokens * channels, Y + row * tokens * values
    state, total = tl.zeros([TILE, VALUES], tl.float32), tl.zeros([TILE], tl.float32)
    inside, at = (c[:, None] < channels) & (e[None, :] < values), c[:, None] * values + e[None, :]
    count = tl.minimum(per_segment, chunks - segment * per_segment)
    for step in range(count):
        chunk = segment * per_segment + (count - 1 - step if REVERSE else step)
        place = row * chunks + chunk
        tl.store(LOCAL + place * channels * values + at, state, mask=inside)
        tl.store(CARRIED + place * channels + c, total, mask=c < channels)
        t = chunk * CHUNK + tl.arange(0, CHUNK)
        gates = _load(a, t, c, tokens, channels)
        if REVERSE:
            faded = tl.cumsum(gates, 0)
        else:
            after = tl.where(tl.arange(0, CHUNK)[:, None] < CHUNK - 1, _load(a, t + 1, c, tokens, channels), 0.0)
            faded = tl.cumsum(after, 0, reverse=True)
        kept = _load(x, t, c, tokens, channels) * tl.exp(faded)
        given = _load(y, t, e, tokens, values)
        whole = tl.sum(gates, 0)
        state = tl.exp(whole)[:, None] * state + tl.sum(kept[:, :, None] * given[:, None, :], 0)
        total += whole
    place = row * segments + segment
    tl.store(BORDER + place * channels * values + at, state, mask=inside)
    tl.store(TOTAL + place * channels + c, total, mask=c < channels)


@triton.jit
def _scan(
    BORDER, TOTAL, channels, values, segments,
    REVERSE: tl.constexpr, TILE: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """In place: what each segment adds becomes what it starts with."""
    row = tl.program_id(0).to(tl.int64)
    c, e = tl.program_id(1) * TILE + tl.arange(0, TILE), tl.arange(0, VALUES)
    inside, at = (c[:, None] < channels) & (e[None, :] < values), c[:, None] * values + e[None, :]
    state = tl.zeros([TILE, VALUES], tl.float32)
    for step in range(segments):
        place = row * segments + (segments - 1 - step if REVERSE else step)
        border = BORDER + place * channels * values + at
        added = tl.load(border, mask=inside, other=0.0)
        fade = tl.load(TOTAL + place * channels + c, mask=c < channels, other=0.0)
        tl.store(border, state, mask=inside)
        state = tl.exp(fade)[:, None] * state + added


@triton.jit
def _fade_states(fade, border, added_before, CHUNK: tl.constexpr):
    """X_t of a chunk's tokens, along the first of three axes: what is left of S_(t-1) when token t arrives."""
    first = tl.arange(0, CHUNK)[:, None, None] == 0
    return _scan_fading(fade, fade * tl.where(first, border[None, :, :], added_before), False)


@triton.jit
def _output(
    Q, K, V, A, LOCAL, CARRIED, BORDER, OUT, tokens, channels, values, chunks, segments, per_segment,
    CHUNK: tl.constexpr, TILE: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Threads share the values, and each goes through all channels: sums over channels need no exchange."""
    row, chunk = tl.program_id(0).to(tl.int64) // chunks, tl.program_id(0) % chunks
    t, e = chunk * CHUNK + tl.arange(0, CHUNK), tl.arange(0, VALUES)
    local, carried = LOCAL + row * chunks * channels * values, CARRIED + row * chunks * channels
    border, wide, narrow = BORDER + row * segments * channels * values, row * tokens * channels, row * tokens * values
    v, v_before = _load(V + narrow, t, e, tokens, values), _load(V + narrow, t - 1, e, tokens, values)
    out = tl.zeros([CHUNK, VALUES], tl.float32)
    for start in range(0, channels, TILE):
        c = start + tl.arange(0, TILE)
        q, k = _load(Q + wide, t, c, tokens, channels), _load(K + wide, t, c, tokens, channels)
        k_before, a = _load(K + wide, t - 1, c, tokens, channels), _load(A + wide, t, c, tokens, channels)
        state = _state(local, carried, border, chunk, chunk // per_segment, c[:, None], e[None, :], channels, values)
        left = _fade_states(tl.exp(a)[:, :, None], state, k_before[:, :, None] * v_before[:, None, :], CHUNK)
        out += tl.sum(q[:, :, None] * left, 1) + tl.sum(q * k, 1)[:, None] * v
    _store(OUT + narrow, out, t, e, tokens, values)


@triton.jit
def _backward(
    Q, K, V, A, G, LOCAL, CARRIED, BORDER, BACK_LOCAL, BACK_CARRIED, BACK_BORDER, DQ, DK, DV, DA,
    tokens, channels, values, chunks, segments, per_segment, rows,
    CHUNK: tl.constexpr, TILE: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Threads share the channels, and each goes through all values: three of the four sums need no exchange."""
    row, chunk = tl.program_id(0).to(tl.int64) // chunks, tl.program_id(0) % chunks
    t, c = chunk * CHUNK + tl.arange(0, CHUNK), tl.program_id(1) * TILE + tl.arange(0, TILE)
    per_chunk, per_border = row * chunks * channels * values, row * segments * channels * values
    carried, wide, narrow = row * chunks * channels, row * tokens * channels, row * tokens * values
    last, segment = tl.arange(0, CHUNK)[:, None, None] == CHUNK - 1, chunk // per_segment
    q, k = _load(Q + wide, t, c, tokens, channels), _load(K + wide, t, c, tokens, channels)
    k_before = _load(K + wide, t - 1, c, tokens, channels)
    fade = tl.exp(_load(A + wide, t, c, tokens, channels))[:, None, :]
    fade_after = tl.exp(_load(A + wide, t + 1, c, tokens, channels))[:, None, :]
    dq, dk, da = tl.zeros_like(q), tl.zeros_like(q), tl.zeros_like(q)
    for start in range(0, values, VALUES):
        e = start + tl.arange(0, VALUES)
        v, v_before = _load(V + narrow, t, e, tokens, values), _load(V + narrow, t - 1, e, tokens, values)
        g = _load(G + narrow, t, e, tokens, values)
        before = _state(
            LOCAL + per_chunk, CARRIED + carried, BORDER + per_border,
            chunk, segment, c[None, :], e[:, None], channels, values,
        )  # fmt: skip
        after = _state(
            BACK_LOCAL + per_chunk, BACK_CARRIED + carried, BACK_BORDER + per_border,
            chunk, segment, c[None, :], e[:, None], channels, values,
        )  # fmt: skip
        left = _fade_states(fade, before, k_before[:, None, :] * v_before[:, :, None], CHUNK)
        own = q[:, None, :] * g[:, :, None]
        dstate = _scan_fading(fade_after, tl.where(last, own + after[None, :, :], own), True)
        dq += tl.sum(left * g[:, :, None], 1) + tl.sum(g * v, 1)[:, None] * k
        dk += tl.sum(dstate * v[:, :, None], 1)
        da += tl.sum(dstate * left, 1)
        dv = tl.sum(dstate * k[:, None, :], 2)
        _store(DV + tl.program_id(1).to(tl.int64) * rows * tokens * values + narrow, dv, t, e, tokens, values)
    _store(DQ + wide, dq, t, c, tokens, channels)
    _store(DK + wide, dk, t, c, tokens, channels)
    _store(DA + wide, da, t, c, tokens, channels)


class _Shape(NamedTuple):
    """Sizes that the kernels are told, in their order."""

    tokens: int
    channels: int
    values: int
    chunks: int
    segments: int
    per_segment: int

    @classmethod
    def of(cls, q: Tensor, v: Tensor) -> "_Shape":
        # Whole numbers, where a compiler would carry symbols: sizes of blocks are worked out from them.
        tokens, channels, values = int(q.shape[1]), int(q.shape[2]), int(v.shape[2])
        chunks = triton.cdiv(tokens, CHUNK)
        # As many steps within a segment as from segment to segment: both are sequential.
        per_segment = 1 << ((chunks - 1).bit_length() + 1) // 2
        return cls(tokens, channels, values, chunks, triton.cdiv(chunks, per_segment), per_segment)

    def all_values(self, numbers: int) -> dict[str, int]:
        """All values and a few channels, some `numbers` of a state."""
        values = triton.next_power_of_2(self.values)
        channels = max(1, min(numbers // values, triton.next_power_of_2(self.channels)))
        return {"TILE": channels, "VALUES": values, "num_warps": WARPS}

    def all_channels(self, numbers: int) -> dict[str, int]:
        """As many channels as a warp has threads and a few values, some `numbers` of a state."""
        channels = min(32, triton.next_power_of_2(self.channels))
        values = max(1, min(numbers // channels, triton.next_power_of_2(self.values)))
        return {"TILE": channels, "VALUES": values, "num_warps": WARPS}


def _run_states(wrap: Wrap, x: Tensor, y: Tensor, a: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """S within segments at each chunk's border, the gates summed to there, S at each segment's border."""
    rows, shape = len(x), _Shape.of(x, y)
    local = x.new_empty(rows, shape.chunks, shape.channels, shape.values)
    carried = x.new_empty(rows, shape.chunks, shape.channels)
    border = x.new_empty(rows, shape.segments, shape.channels, shape.values)
    total = x.new_empty(rows, shape.segments, shape.channels)
    tiles = shape.all_values(NUMBERS["states"])
    wrap(_states)[(rows * shape.segments, triton.cdiv(shape.channels, tiles["TILE"]))](
        x, y, a, local, carried, border, total, *shape, REVERSE=reverse, CHUNK=CHUNK, **tiles
    )
    tiles = shape.all_values(NUMBERS["scan"])
    wrap(_scan)[(rows, triton.cdiv(shape.channels, tiles["TILE"]))](
        border, total, shape.channels, shape.values, shape.segments, REVERSE=reverse, **tiles
    )
    return local, carried, border


def _run_forward(wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
    shape, out = _Shape.of(q, v), torch.empty_like(v)
    states = _run_states(wrap, k, v, a, False)
    tiles = shape.all_values(NUMBERS["output"])
    wrap(_output)[(len(q) * shape.chunks,)](q, k, v, a, *states, out, *shape, CHUNK=CHUNK, **tiles)
    return out


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = _Shape.of(q, v)
    tiles = shape.all_channels(NUMBERS["backward"])
    wide = triton.cdiv(shape.channels, tiles["TILE"])
    before = _run_states(wrap, k, v, a, False)
    after = _run_states(wrap, q, g, a, True)
    dq, dk, da, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(a), v.new_empty(wide, *v.shape)
    wrap(_backward)[(len(q) * shape.chunks, wide)](
        q, k, v, a, g, *before, *after, dq, dk, dv, da, *shape, len(q), CHUNK=CHUNK, **tiles
    )
    return dq, dk, dv.sum(0) if wide > 1 else dv[0], da


def mix(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor) -> Tensor:
    """o of q, k, log_gate [.., token, channel] and v [.., token, value], float32."""
    parts = [part.reshape(-1, *part.shape[-2:]).contiguous() for part in (q, k, v, log_gate)]
    return gated_attention(*parts).view(v.shape)


gated_attention = Operator("gated_attention", _run_forward, _run_backward, tensors=4, lay_out=Tensor.contiguous)
