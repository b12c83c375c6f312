"""CAPS over a short axis in one kernel: turns, clocks, gates, weights and all three memories.

    S_t = exp(a_t) S_(t-1) + w_t k_t v_t^T for each path,   o_t = sum over paths of S_t^T q_t

with a and w as `caps` has them. By plain operations the gates and weights of three paths are dozens of passes over
tensors as large as the values; here a program makes them token by token beside the states. That is sequential, and
suits an axis of a hundred tokens and many rows; `caps` has a kernel for longer ones. Backward walks forth for the
states and back for their gradients, and keeps nothing from the forward pass. All sums are float32, TF32 or not.

A program holds a few heads of one row and the states [head, channel, value] of their paths, and walks along the tokens.
Nothing is read but the maps of the tokens and nothing written but the result. What a clock weighs is the same for all
channels, and has an axis of one in their place.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import like, pack

LONGEST = 128
WIDEST = 32
NUMBERS = 256
"""Numbers of a path's states for each warp of a program."""
LOW = tl.constexpr(-1e30)
EPS = tl.constexpr(1e-6)
SHUT = tl.constexpr(1e-9)
"""A gate below it lets less through than the sum of its gradient is rounded by; steep as it may be, that is 0."""


@triton.jit
def _log_1_plus_exp(x):
    """ln(1 + exp(x)) for x <= 0, right where it is tiny too."""
    z = tl.exp(x)
    u = 1.0 + z
    # ln(u) errs by the rounding of u, and so does u - 1.
    return tl.where(u == 1.0, z, tl.log(u) * (z / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def _softplus(x):
    """ln(1 + exp(x))."""
    return tl.maximum(x, 0.0) + _log_1_plus_exp(-tl.abs(x))


@triton.jit
def _sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    z = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, 1.0, z) / (1.0 + z)


@triton.jit
def _columns(heads, width, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Heads [head, 1] and channels [1, channel] of this program, and which of both are there."""
    h = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    return h, c, (h < heads) & (c < width)


@triton.jit
def _load(at, inside):
    return tl.load(at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(at, values, inside):
    tl.store(at, values.to(at.dtype.element_ty), mask=inside)


@triton.jit
def _angles(TABLE, c, width, sines, TURNED: tl.constexpr):
    """Cosines and sines of a token, for all channels."""
    cos, sin = c.to(tl.float32), c.to(tl.float32)
    if TURNED:
        cos = tl.load(TABLE + c, mask=c < width, other=0.0)
        sin = tl.load(TABLE + sines + c, mask=c < width, other=0.0)
    return cos, sin


@triton.jit
def _load_turned(at, inside, c, width, cos, sin, TURNED: tl.constexpr):
    """Queries or keys of a token, each pair of channels turned by its angle."""
    x = _load(at, inside)
    if TURNED:
        beside = _load(at + tl.where(c % 2 == 0, 1, -1), inside & (c < width - 1 + c % 2))
        x = x * cos + tl.where(c % 2 == 0, -1.0, 1.0) * beside * sin
    return x


@triton.jit
def _turned_back(dx, cos, sin, TURNED: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """The gradient before the turn, from that after it."""
    if TURNED:
        a, b = tl.split(tl.reshape(dx * sin, [HEADS, WIDTH // 2, 2]))
        dx = dx * cos + tl.reshape(tl.join(b, -a), [HEADS, WIDTH])
    return dx


@triton.jit
def _average_step(state, so_far, score, pair):
    """A step of a path that weighs tokens by exp(score): its state, the weights' logarithm, the earlier one's lead."""
    before = so_far - score
    so_far = tl.maximum(so_far, score) + _log_1_plus_exp(-tl.abs(before))
    return _sigmoid(before)[:, :, None] * state + _sigmoid(-before)[:, :, None] * pair, so_far, before


@triton.jit
def _pull_average(dstate, dgate, dso_far, before, noted, pair, k, v, CLOCKED: tl.constexpr):
    """A step of the same backwards: the three gradients as they go on, and those of the key, v's weights, the score."""
    gate, weight = _sigmoid(before), _sigmoid(-before)
    dstate += pair
    dk = tl.sum(dstate * v, 2)
    moved = k * dk
    if CLOCKED:
        moved = tl.sum(moved, 1)[:, None]
    dgate = tl.where(gate < SHUT, 0.0, dgate + noted - weight * moved)
    dbefore = weight * (dgate - gate * moved)
    dscore = weight * dso_far - dbefore
    dso_far = dbefore + gate * dso_far
    return dstate * gate[:, :, None], dgate, dso_far, weight * dk, weight[:, :, None] * dstate, dscore


@triton.jit
def forward(
    Q, K, V, P, G, CLOCK, TABLE, OUT,
    qr, qh, qt, kr, kh, kt, vr, vh, vt, pr, ph, pt, gr, gh, gt, cr, ch, ct, outr, outh, outt,
    heads, tokens, width, value_width, sines,
    RIEMANN: tl.constexpr, PREFIX: tl.constexpr, CLOCKED: tl.constexpr, TURNED: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """The result of a few heads of one row."""
    row = tl.program_id(0).to(tl.int64)
    h, c, wide = _columns(heads, width, HEADS, WIDTH)
    h, e, narrow = _columns(heads, value_width, HEADS, VALUES)
    q_at, k_at, v_at = Q + row * qr + h * qh + c, K + row * kr + h * kh + c, V + row * vr + h * vh + e
    p_at, g_at, clock_at = P + row * pr + h * ph + c, G + row * gr + h * gh + c, CLOCK + row * cr + h * ch
    out_at = OUT + row * outr + h * outh + e
    riemann = tl.zeros((HEADS, WIDTH, VALUES), tl.float32)
    prefix, clock = riemann, riemann
    # The logarithms of what was summed so far: of nothing.
    mass, time = tl.full((HEADS, WIDTH), LOW, tl.float32), tl.full((HEADS, 1), LOW, tl.float32)
    for t in range(tokens):
        cos, sin = _angles(TABLE + t * width, c, width, sines, TURNED)
        q = _load_turned(q_at + t * qt, wide, c, width, cos, sin, TURNED)
        k = _load_turned(k_at + t * kt, wide, c, width, cos, sin, TURNED)
        pair = k[:, :, None] * _load(v_at + t * vt, narrow)[:, None, :]
        delta = _softplus(_load(clock_at + t * ct, h < heads)) + EPS
        if RIEMANN:
            riemann, mass, _ = _average_step(riemann, mass, _load(p_at + t * pt, wide) + tl.log(delta), pair)
        if PREFIX:
            fade = tl.exp(-_softplus(_load(g_at + t * gt, wide)) * delta)
            prefix = fade[:, :, None] * prefix + pair
        if CLOCKED:
            clock, time, _ = _average_step(clock, time, tl.log(delta), pair)
        _store(out_at + t * outt, tl.sum(q[:, :, None] * (riemann + prefix + clock), 1), narrow)


@triton.jit
def backward(
    Q, K, V, P, G, CLOCK, TABLE, PULL, NOTES, DQ, DK, DV, DP, DG, DCLOCK,
    qr, qh, qt, kr, kh, kt, vr, vh, vt, pr, ph, pt, gr, gh, gt, cr, ch, ct, ur, uh, ut,
    dqr, dqh, dqt, dkr, dkh, dkt, dvr, dvh, dvt, dpr, dph, dpt, dgr, dgh, dgt, dcr, dch, dct,
    heads, tokens, width, value_width, sines,
    RIEMANN: tl.constexpr, PREFIX: tl.constexpr, CLOCKED: tl.constexpr, TURNED: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """All gradients of a few heads of one row: forward for the states, then back for their gradients.

    The gradient of a log-gate, that of S_t times what was left of S_(t-1), needs both at once. It is a running sum too:
    da_t = da_(t+1) + q_t dq_t - k_t dk_t, for each path and channel, where q_t dq_t is noted on the way forward.
    """
    row = tl.program_id(0).to(tl.int64)
    h, c, wide = _columns(heads, width, HEADS, WIDTH)
    h, e, narrow = _columns(heads, value_width, HEADS, VALUES)
    one = h < heads
    q_at, k_at, v_at = Q + row * qr + h * qh + c, K + row * kr + h * kh + c, V + row * vr + h * vh + e
    p_at, g_at, clock_at = P + row * pr + h * ph + c, G + row * gr + h * gh + c, CLOCK + row * cr + h * ch
    pull_at = PULL + row * ur + h * uh + e
    # For each token and head: three lines of channels, two single numbers.
    stride = heads * (3 * width + 2)
    lines = NOTES + row * tokens * stride + h * (3 * width + 2)
    single, lines = lines + 3 * width, lines + c

    riemann = tl.zeros((HEADS, WIDTH, VALUES), tl.float32)
    prefix, clock = riemann, riemann
    mass, time = tl.full((HEADS, WIDTH), LOW, tl.float32), tl.full((HEADS, 1), LOW, tl.float32)
    for t in range(tokens):
        cos, sin = _angles(TABLE + t * width, c, width, sines, TURNED)
        q = _load_turned(q_at + t * qt, wide, c, width, cos, sin, TURNED)
        k = _load_turned(k_at + t * kt, wide, c, width, cos, sin, TURNED)
        pair = k[:, :, None] * _load(v_at + t * vt, narrow)[:, None, :]
        pull = _load(pull_at + t * ut, narrow)[:, None, :]
        delta = _softplus(_load(clock_at + t * ct, one)) + EPS
        dq = tl.zeros((HEADS, WIDTH), tl.float32)
        if RIEMANN:
            riemann, mass, before = _average_step(riemann, mass, _load(p_at + t * pt, wide) + tl.log(delta), pair)
            part = tl.sum(riemann * pull, 2)
            dq += part
            tl.store(lines + t * stride, before, mask=wide)
            tl.store(lines + t * stride + width, q * part, mask=wide)
        if PREFIX:
            fade = tl.exp(-_softplus(_load(g_at + t * gt, wide)) * delta)
            prefix = fade[:, :, None] * prefix + pair
            part = tl.sum(prefix * pull, 2)
            dq += part
            tl.store(lines + t * stride + 2 * width, q * part, mask=wide)
        if CLOCKED:
            clock, time, before = _average_step(clock, time, tl.log(delta), pair)
            part = tl.sum(clock * pull, 2)
            dq += part
            tl.store(single + t * stride, before, mask=one)
            tl.store(single + t * stride + 1, tl.sum(q * part, 1)[:, None], mask=one)
        dq = _turned_back(dq, cos, sin, TURNED, HEADS, WIDTH)
        _store(DQ + row * dqr + h * dqh + t * dqt + c, dq, wide)
    tl.debug_barrier()

    # From here on `riemann`, `prefix` and `clock`, `mass` and `time` are the gradients of what they were.
    riemann = tl.zeros((HEADS, WIDTH, VALUES), tl.float32)
    prefix, clock = riemann, riemann
    mass, time = tl.zeros((HEADS, WIDTH), tl.float32), tl.zeros((HEADS, 1), tl.float32)
    riemann_gate, prefix_gate, clock_gate = mass, mass, time
    for step in range(tokens):
        t = tokens - 1 - step
        cos, sin = _angles(TABLE + t * width, c, width, sines, TURNED)
        q = _load_turned(q_at + t * qt, wide, c, width, cos, sin, TURNED)
        k = _load_turned(k_at + t * kt, wide, c, width, cos, sin, TURNED)
        v = _load(v_at + t * vt, narrow)[:, None, :]
        pair = q[:, :, None] * _load(pull_at + t * ut, narrow)[:, None, :]
        raw = _load(clock_at + t * ct, one)
        delta = _softplus(raw) + EPS
        dk = tl.zeros((HEADS, WIDTH), tl.float32)
        dv = tl.zeros((HEADS, WIDTH, VALUES), tl.float32)
        dlog, ddelta = tl.zeros((HEADS, 1), tl.float32), tl.zeros((HEADS, 1), tl.float32)
        if RIEMANN:
            before = tl.load(lines + t * stride, mask=wide, other=0.0)
            noted = tl.load(lines + t * stride + width, mask=wide, other=0.0)
            riemann, riemann_gate, mass, key, value, dscore = _pull_average(
                riemann, riemann_gate, mass, before, noted, pair, k, v, False
            )
            dk += key
            dv += value
            dlog += tl.sum(dscore, 1)[:, None]
            _store(DP + row * dpr + h * dph + t * dpt + c, dscore, wide)
        if PREFIX:
            g = _load(g_at + t * gt, wide)
            rate = _softplus(g)
            gate = tl.exp(-rate * delta)
            prefix += pair
            part = tl.sum(prefix * v, 2)
            dk += part
            dv += prefix
            prefix_gate += tl.load(lines + t * stride + 2 * width, mask=wide, other=0.0) - k * part
            prefix_gate = tl.where((gate < SHUT) | (t == 0), 0.0, prefix_gate)
            prefix *= gate[:, :, None]
            ddelta -= tl.sum(rate * prefix_gate, 1)[:, None]
            _store(DG + row * dgr + h * dgh + t * dgt + c, -_sigmoid(g) * delta * prefix_gate, wide)
        if CLOCKED:
            before = tl.load(single + t * stride, mask=one, other=0.0)
            noted = tl.load(single + t * stride + 1, mask=one, other=0.0)
            clock, clock_gate, time, key, value, dscore = _pull_average(
                clock, clock_gate, time, before, noted, pair, k, v, True
            )
            dk += key
            dv += value
            dlog += dscore
        _store(DCLOCK + row * dcr + h * dch + t * dct, (ddelta + dlog / delta) * _sigmoid(raw), one)
        _store(DV + row * dvr + h * dvh + t * dvt + e, tl.sum(dv * k[:, :, None], 1), narrow)
        dk = _turned_back(dk, cos, sin, TURNED, HEADS, WIDTH)
        _store(DK + row * dkr + h * dkh + t * dkt + c, dk, wide)


class _Sizes(NamedTuple):
    """Heads of a program, and how it runs."""

    heads: int
    width: int
    values: int
    warps: int

    @classmethod
    def of(cls, q: Tensor, v: Tensor) -> "_Sizes":
        width, values = (max(2, triton.next_power_of_2(int(part.shape[3]))) for part in (q, v))
        heads = max(1, min(NUMBERS // (width * values), triton.next_power_of_2(int(q.shape[1]))))
        return cls(heads, width, values, max(1, heads * width * values // NUMBERS))

    def options(self) -> dict[str, int]:
        """As arguments of a kernel."""
        return {"HEADS": self.heads, "WIDTH": self.width, "VALUES": self.values, "num_warps": self.warps}


def attend_clocked(
    q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor, table: Tensor | None,
    clocked: bool,
) -> Tensor:  # fmt: skip
    """o of q, k, v, p, g [row, head, token, width], and the clock [row, head, token] before its softplus.

    Without p there is no riemann path, without g no prefix path, and a clock path where `clocked`. `table` [2, token,
    width] has the cosines and sines that queries and keys are turned by.
    """
    p, g = (None if part is None else pack(part) for part in (p, g))
    return clocked_attention(pack(q), pack(k), pack(v), p, g, clock, table, clocked)


def _common(
    q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor, table: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[int, ...], tuple[int, ...]]:
    """Pointers, strides and counts that both kernels take; what is not there is never read."""
    p, g = q if p is None else p, q if g is None else g
    strides = [stride for part in (q, k, v, p, g) for stride in part.stride()[:3]]
    counts = q.shape[1], q.shape[2], q.shape[3], v.shape[3], 0 if table is None else table.stride(0)
    return (q, k, v, p, g, clock, q if table is None else table), (*strides, *clock.stride()), counts


def _paths(p: Tensor | None, g: Tensor | None, table: Tensor | None, clocked: bool) -> dict[str, bool]:
    return {"RIEMANN": p is not None, "PREFIX": g is not None, "CLOCKED": clocked, "TURNED": table is not None}


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor,
    table: Tensor | None, clocked: bool,
) -> Tensor:  # fmt: skip
    pointers, strides, counts = _common(q, k, v, p, g, clock, table)
    out, sizes = like(v), _Sizes.of(q, v)
    wrap(forward)[(q.shape[0], triton.cdiv(q.shape[1], sizes.heads))](
        *pointers, out, *strides, *out.stride()[:3], *counts, **_paths(p, g, table, clocked), **sizes.options()
    )
    return out


def _run_backward(
    wrap: Wrap, pull: Tensor, q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor,
    table: Tensor | None, clocked: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k, v, p, g and the clock; an empty one for what is not there."""
    pointers, strides, counts = _common(q, k, v, p, g, clock, table)
    rows, heads, tokens, width = q.shape
    notes = torch.empty(rows, tokens, heads, 3 * width + 2, dtype=torch.float32, device=q.device)
    made = [torch.empty_like(part) if part is not None else notes.new_empty(0, 0, 0, 0) for part in (q, k, v, p, g)]
    dclock, sizes = torch.empty_like(clock), _Sizes.of(q, v)
    steps = [stride for part in made for stride in part.stride()[:3]]
    wrap(backward)[(rows, triton.cdiv(heads, sizes.heads))](
        *pointers, pull, notes, *made, dclock, *strides, *pull.stride()[:3], *steps, *dclock.stride(), *counts,
        **_paths(p, g, table, clocked), **sizes.options(),
    )  # fmt: skip
    return made[0], made[1], made[2], made[3], made[4], dclock


clocked_attention = Operator("clocked_attention", _run_forward, _run_backward, tensors=7)
