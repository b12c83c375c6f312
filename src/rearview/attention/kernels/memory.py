"""MICA's two paths and a beta gate: attention within each channel, and what a memory of all channels says.

    M = sum_c phi(K_c)^T V_c,   z = sum_c sum_p phi(K_c[p]),   A = phi(Q) M / (phi(Q) z + eps)
    L = (softmax(Q K^T s + B) * D) V,   O = w A + (1 - w) L

L is `short`'s. Beside it one kernel sums over the channels and another reads the memory and joins both; backward, dM
and dz are sums over channels as well, and one more kernel adds what comes by way of the memory to the gradients that L
has left. All of it in one program holds so many tiles that few programs run at a time: on an H200 such a backward pass
took three times as long as the short kernel's. Sums are in float32, parts of them are added in a fixed order.

The tokens of all channels are the rows of one matrix, and several heads lie side by side in its columns, as projections
leave them: heads of 8 channels by themselves would read 32 bytes at a time. Their memories are then the blocks on the
diagonal of one matrix, and copies of z, one for each value, those of another. The rest of both is zeros that tensor
cores multiply faster than anything could be left out. Sums over a head's channels are products with such matrices too,
so that no tile changes its shape.

In memory, [value + 1, key] of a batch and head is the turned M with z as its last line. Where all tensors are DENSE,
their rows are equally far apart and their columns side by side, so that four numbers are read at a time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap, short
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import precision, roomy

ROWS = 64
"""Tokens of a tile, fewer where a head is wider than COLUMNS."""
COLUMNS = 32
"""Channels of a tile: of several heads, or of one that is wider."""
LEAST = 16
"""The fewest channels that tensor cores take."""
WIDEST = 64
"""The widest heads whose memories fit beside the tiles; on smaller chips, half of it."""
PROGRAMS = 528
"""Programs that share a sum over channels: four for each multiprocessor of a large chip."""
STAGES = 2
"""Of their loops. With three, and twice as many programs, an H200 took half as long again for a memory's gradient."""
EPS = tl.constexpr(1e-6)


@triton.jit
def features(x):
    """phi(x) = elu(x) + 1 > 0, in float32."""
    x = x.to(tl.float32)
    return tl.where(x > 0, x + 1.0, tl.exp(tl.minimum(x, 0.0)))


@triton.jit
def _slope(phi):
    """phi'(x), from phi(x)."""
    return tl.minimum(phi, 1.0)


@triton.jit
def _columns(heads, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Number, head and channel of each column of this program."""
    first, j = tl.program_id(0) % tl.cdiv(heads, HEADS) * HEADS, tl.arange(0, HEADS * WIDTH)
    return first * WIDTH + j, first + j // WIDTH, j % WIDTH


@triton.jit
def _there(h, c, heads, width, DENSE: tl.constexpr):
    """True on columns that are inside the tensor."""
    there = h < heads
    if not DENSE:
        there = there & (c < width)
    return there


@triton.jit
def _batch(heads, HEADS: tl.constexpr):
    return tl.program_id(0).to(tl.int64) // tl.cdiv(heads, HEADS)


@triton.jit
def _places(r, j, h, c, tokens, group, head, token, DENSE: tl.constexpr):
    """The places of rows r of columns j, channels c of heads h, counted from the start of their batch."""
    if DENSE:
        places = (r * token)[:, None] + j[None, :]
    else:
        places = (r // tokens * group + r % tokens * token)[:, None] + (h * head + c)[None, :]
    return places


@triton.jit
def _get(start, places, inside):
    return tl.load(start + places, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _shares(SHARE, r, h, tokens, group, head, inside, columns, ALIKE: tl.constexpr):
    """w of each row and column: one line where all channels are ALIKE."""
    if ALIKE:
        share = tl.load(SHARE + h * head, mask=columns, other=0.0)[None, :]
    else:
        share = tl.load(SHARE + (r // tokens * group)[:, None] + (h * head)[None, :], mask=inside, other=0.0)
    return share


@triton.jit
def _blocks(MEMORY, b, h, c, keys, values, heads, key_width, value_width):
    """M^T of several heads as blocks on the diagonal [value column, key column], z, and z in the same places."""
    at = (b * heads + h) * (value_width + 1) * key_width + c
    same = (h[:, None] == h[None, :]) & values[:, None] & keys[None, :]
    m = tl.load(MEMORY + at[None, :] + (c * key_width)[:, None], mask=same, other=0.0)
    z = tl.load(MEMORY + at + value_width * key_width, mask=keys, other=0.0)
    return m, z, tl.where(same, z[None, :], 0.0)


@triton.jit
def _keep(SUMS, m, z, b, h, c, keys, values, batches, heads, key_width, value_width):
    """Write the blocks on the diagonal, and z: this program's part of a sum [part, batch, head, value + 1, key]."""
    at = ((tl.program_id(1) * batches + b) * heads + h) * (value_width + 1) * key_width + c
    same = (h[:, None] == h[None, :]) & values[:, None] & keys[None, :]
    tl.store(SUMS + at[None, :] + (c * key_width)[:, None], m, mask=same)
    tl.store(SUMS + at + value_width * key_width, z, mask=keys)


@triton.jit
def _read(phi, m, z, EXACT: tl.constexpr):
    """A = phi(Q) M / (phi(Q) z + eps), and what it was divided by, in every column."""
    under = tl.dot(phi, tl.trans(z), input_precision=EXACT) + EPS
    return tl.dot(phi, tl.trans(m), input_precision=EXACT) / under, under


@triton.jit
def _span(rows, ROWS: tl.constexpr):
    """The first row of this program and the first of the next one's, on borders of tiles."""
    tiles = tl.cdiv(tl.cdiv(rows, ROWS), tl.num_programs(1))
    first = tl.program_id(1) * tiles * ROWS
    return first, tl.minimum(first + tiles * ROWS, rows)


@triton.jit
def remember(
    K, V, SUMS, kb, kg, kh, kt, vb, vg, vh, vt, batches, heads, rows, tokens, key_width, value_width,
    ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, DENSE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """M and z of one batch and a few heads, over one program's share of the rows."""
    b = _batch(heads, HEADS)
    j, h, c = _columns(heads, HEADS, WIDTH)
    keys, values = _there(h, c, heads, key_width, DENSE), _there(h, c, heads, value_width, DENSE)
    m, z = tl.zeros((HEADS * WIDTH, HEADS * WIDTH), tl.float32), tl.zeros((ROWS, HEADS * WIDTH), tl.float32)
    first, end = _span(rows, ROWS)
    for start in range(first, end, ROWS):
        r = start + tl.arange(0, ROWS)
        there = r[:, None] < end
        k = _get(K + b * kb, _places(r, j, h, c, tokens, kg, kh, kt, DENSE), there & keys[None, :])
        v = _get(V + b * vb, _places(r, j, h, c, tokens, vg, vh, vt, DENSE), there & values[None, :])
        # Rows that are not there have a phi of 1.
        phi = tl.where(there, features(k), 0.0)
        m = tl.dot(tl.trans(v), phi, m, input_precision=EXACT)
        z += phi
    _keep(SUMS, m, tl.sum(z, 0), b, h, c, keys, values, batches, heads, key_width, value_width)


@triton.jit
def join(
    Q, LOCAL, MEMORY, SHARE, OUT,
    qb, qg, qh, qt, lb, lg, lh, lt, ob, og, oh, ot, sg, sh, heads, rows, tokens, key_width, value_width,
    ALIKE: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, DENSE: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """O = w A + (1 - w) L of a tile of rows, for a few heads."""
    b = _batch(heads, HEADS)
    j, h, c = _columns(heads, HEADS, WIDTH)
    keys, values = _there(h, c, heads, key_width, DENSE), _there(h, c, heads, value_width, DENSE)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = r[:, None] < rows
    wide, narrow = there & keys[None, :], there & values[None, :]
    q = _get(Q + b * qb, _places(r, j, h, c, tokens, qg, qh, qt, DENSE), wide)
    out = _get(LOCAL + b * lb, _places(r, j, h, c, tokens, lg, lh, lt, DENSE), narrow)
    share = _shares(SHARE, r, h, tokens, sg, sh, narrow, values, ALIKE)
    m, _, z = _blocks(MEMORY, b, h, c, keys, values, heads, key_width, value_width)
    a, _ = _read(features(q), m, z, EXACT)
    out += share * (a - out)
    places = _places(r, j, h, c, tokens, og, oh, ot, DENSE)
    tl.store(OUT + b * ob + places, out.to(OUT.dtype.element_ty), mask=narrow)


@triton.jit
def pull_memory(
    Q, G, LOCAL, MEMORY, SHARE, SUMS, DSHARE,
    qb, qg, qh, qt, gb, gg, gh, gt, lb, lg, lh, lt, sg, sh, batches, heads, rows, tokens, key_width, value_width,
    ALIKE: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, DENSE: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """Gradients of M and z, from one program's share of the rows, and of the share.

    That of the share is a sum for each column [part, batch, head, value] where channels are ALIKE, else for each row
    [batch, row, head].
    """
    b = _batch(heads, HEADS)
    j, h, c = _columns(heads, HEADS, WIDTH)
    keys, values = _there(h, c, heads, key_width, DENSE), _there(h, c, heads, value_width, DENSE)
    same = h[:, None] == h[None, :]
    m, _, z = _blocks(MEMORY, b, h, c, keys, values, heads, key_width, value_width)
    dm = tl.zeros((HEADS * WIDTH, HEADS * WIDTH), tl.float32)
    dz, dshare = dm, tl.zeros((ROWS, HEADS * WIDTH), tl.float32)
    first, end = _span(rows, ROWS)
    for start in range(first, end, ROWS):
        r = start + tl.arange(0, ROWS)
        there = r[:, None] < end
        wide, narrow = there & keys[None, :], there & values[None, :]
        # Rows that are not there have no gradient, and add nothing.
        phi = features(_get(Q + b * qb, _places(r, j, h, c, tokens, qg, qh, qt, DENSE), wide))
        g = _get(G + b * gb, _places(r, j, h, c, tokens, gg, gh, gt, DENSE), narrow)
        local = _get(LOCAL + b * lb, _places(r, j, h, c, tokens, lg, lh, lt, DENSE), narrow)
        a, under = _read(phi, m, z, EXACT)
        if ALIKE:
            dshare += g * (a - local)
        else:
            each = tl.dot(g * (a - local), tl.where(same, 1.0, 0.0), input_precision=EXACT)
            places = (b * rows + r)[:, None] * heads + h[None, :]
            tl.store(DSHARE + places, each, mask=narrow & (c == 0)[None, :])
        da = g * _shares(SHARE, r, h, tokens, sg, sh, narrow, values, ALIKE) / under
        dm = tl.dot(tl.trans(da), phi, dm, input_precision=EXACT)
        dz = tl.dot(tl.trans(da * a), phi, dz, input_precision=EXACT)
    dz = -tl.sum(tl.where(same, dz, 0.0), 0)
    _keep(SUMS, dm, dz, b, h, c, keys, values, batches, heads, key_width, value_width)
    if ALIKE:
        places = ((tl.program_id(1) * batches + b) * heads + h) * value_width + c
        tl.store(DSHARE + places, tl.sum(dshare, 0), mask=values)


@triton.jit
def _add(start, places, rest, more, inside):
    """Write the number that is there, times `rest`, and more."""
    more += rest * _get(start, places, inside)
    tl.store(start + places, more.to(start.dtype.element_ty), mask=inside)


@triton.jit
def pull(
    Q, K, V, G, MEMORY, DMEMORY, SHARE, DQ, DK, DV,
    qb, qg, qh, qt, kb, kg, kh, kt, vb, vg, vh, vt, gb, gg, gh, gt,
    dqb, dqg, dqh, dqt, dkb, dkg, dkh, dkt, dvb, dvg, dvh, dvt, sg, sh, heads, rows, tokens, key_width, value_width,
    ALIKE: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, DENSE: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, keys and values of a tile of rows, from those of L, which lie there, and of the memory."""
    b = _batch(heads, HEADS)
    j, h, c = _columns(heads, HEADS, WIDTH)
    keys, values = _there(h, c, heads, key_width, DENSE), _there(h, c, heads, value_width, DENSE)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = r[:, None] < rows
    wide, narrow = there & keys[None, :], there & values[None, :]
    share = _shares(SHARE, r, h, tokens, sg, sh, there & (h < heads)[None, :], h < heads, ALIKE)
    rest = 1.0 - share

    dm, dz, _ = _blocks(DMEMORY, b, h, c, keys, values, heads, key_width, value_width)
    phi = features(_get(K + b * kb, _places(r, j, h, c, tokens, kg, kh, kt, DENSE), wide))
    v = _get(V + b * vb, _places(r, j, h, c, tokens, vg, vh, vt, DENSE), narrow)
    dv = tl.dot(phi, tl.trans(dm), input_precision=EXACT)
    _add(DV + b * dvb, _places(r, j, h, c, tokens, dvg, dvh, dvt, DENSE), rest, dv, narrow)
    dk = (tl.dot(v, dm, input_precision=EXACT) + dz[None, :]) * _slope(phi)
    _add(DK + b * dkb, _places(r, j, h, c, tokens, dkg, dkh, dkt, DENSE), rest, dk, wide)

    m, _, z = _blocks(MEMORY, b, h, c, keys, values, heads, key_width, value_width)
    phi = features(_get(Q + b * qb, _places(r, j, h, c, tokens, qg, qh, qt, DENSE), wide))
    g = _get(G + b * gb, _places(r, j, h, c, tokens, gg, gh, gt, DENSE), narrow)
    a, under = _read(phi, m, z, EXACT)
    da = g * share / under
    dq = (tl.dot(da, m, input_precision=EXACT) - tl.dot(da * a, z, input_precision=EXACT)) * _slope(phi)
    _add(DQ + b * dqb, _places(r, j, h, c, tokens, dqg, dqh, dqt, DENSE), rest, dq, wide)


def fits(q: Tensor, v: Tensor) -> bool:
    """Whether heads [..., width] are narrow enough."""
    return max(q.shape[-1], v.shape[-1]) <= (WIDEST if roomy(q.device) else WIDEST // 2)


def mix_with_memory(
    q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, scale: float,
    seed: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """O of q, k [batch, group, head, token, key_width] and v, with `share` w [group or 1, head] in float32.

    `bias` [head or 1, token, token] gets no gradient. Weights are dropped at `rate` where there is a seed.
    """
    return memory_attention(q, k, v, share, bias, seed, scale, rate)


def sum_memory(wrap: Wrap, k: Tensor, v: Tensor) -> Tensor:
    """M and z of keys and values [batch, group, head, token, width], as [batch, head, value_width + 1, key_width]."""
    grid, sizes = _summing_grid(k, v)
    sums = _parts(grid, k, v)
    wrap(remember)[grid](k, v, sums, *_strides(k, v), len(k), *_counts(k, v), **sizes)
    return _total(sums)


def _sizes(k: Tensor, *parts: Tensor) -> dict[str, Any]:
    """Sizes of tiles for keys and all other tensors that a kernel is given, values first."""
    width = triton.next_power_of_2(int(max(k.shape[4], parts[0].shape[4])))
    heads = max(1, LEAST // width, min(COLUMNS // width, triton.next_power_of_2(int(k.shape[2]))))
    rows = min(ROWS, ROWS * COLUMNS // (heads * width))
    dense = all(_dense(part, width) for part in (k, *parts))
    return {"ROWS": rows, "HEADS": heads, "WIDTH": width, "DENSE": dense, "EXACT": precision(torch.float32)}


def _dense(part: Tensor, width: int) -> bool:
    """Whether heads of this width lie side by side, and the tokens of all channels equally far apart."""
    _, group, head, token, _ = part.stride()
    together = part.shape[1] == 1 or group == part.shape[3] * token
    return part.shape[4] == width and (part.shape[2] == 1 or head == width) and together


def _counts(k: Tensor, v: Tensor) -> tuple[int, ...]:
    """Heads, rows, tokens, and both widths."""
    return k.shape[2], k.shape[1] * k.shape[3], k.shape[3], k.shape[4], v.shape[4]


def _strides(*parts: Tensor) -> tuple[int, ...]:
    """All but the last of each part, in which channels lie side by side."""
    return tuple(stride for part in parts for stride in part.stride()[:4])


def _rowwise(k: Tensor, *parts: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of a kernel that has a program for each tile of rows, and sizes of tiles."""
    sizes = _sizes(k, *parts)
    return (len(k) * -(-k.shape[2] // sizes["HEADS"]), -(-k.shape[1] * k.shape[3] // sizes["ROWS"])), sizes


def _summing_grid(k: Tensor, *parts: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of a kernel that sums over rows, and sizes of tiles."""
    (across, tiles), sizes = _rowwise(k, *parts)
    return (across, max(1, min(PROGRAMS // across, tiles))), sizes | {"num_stages": STAGES}


def _parts(grid: tuple[int, int], k: Tensor, v: Tensor) -> Tensor:
    shape = grid[1], k.shape[0], k.shape[2], v.shape[4] + 1, k.shape[4]
    return torch.empty(shape, dtype=torch.float32, device=k.device)


def _total(sums: Tensor) -> Tensor:
    return sums[0] if len(sums) == 1 else sums.sum(0)


def _flat(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batches and groups as rows of the short kernel, which has an axis of branches for queries and keys."""
    return q.flatten(0, 1)[None], k.flatten(0, 1)[None], v.flatten(0, 1)


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    rows = short.run_forward(wrap, *_flat(q, k, v), bias, seed, scale, rate, False, "softmax")
    local = rows.unflatten(0, (len(q), -1))
    memory, out = sum_memory(wrap, k, v), torch.empty_like(local)
    grid, sizes = _rowwise(q, v, local, out)
    strides = *_strides(q, local, out), *share.stride()
    wrap(join)[grid](q, local, memory, share, out, *strides, *_counts(q, v), ALIKE=len(share) == 1, **sizes)
    return out, local, memory


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    local: Tensor, memory: Tensor, scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    # L's gradients are those of g, times 1 - w: the last kernel sees to that, as it adds the memory's.
    rows = short.run_backward(wrap, g.flatten(0, 1), *_flat(q, k, v), bias, seed, scale, rate, False, "softmax")
    dq, dk, dv = (part.unflatten(0, (len(q), -1)) for part in (rows[0][0], rows[1][0], rows[2]))

    batch, groups, heads, tokens, _ = q.shape
    alike = len(share) == 1
    grid, sizes = _summing_grid(q, v, g, local)
    sums = _parts(grid, q, v)
    shape = (grid[1], batch, heads, v.shape[4]) if alike else (batch, groups, tokens, heads)
    dshare = torch.empty(shape, dtype=torch.float32, device=q.device)
    strides = *_strides(q, g, local), *share.stride()
    wrap(pull_memory)[grid](
        q, g, local, memory, share, sums, dshare, *strides, batch, *_counts(q, v), ALIKE=alike, **sizes
    )  # fmt: skip
    grid, sizes = _rowwise(q, v, k, g, dq, dk, dv)
    strides = *_strides(q, k, v, g, dq, dk, dv), *share.stride()
    wrap(pull)[grid](
        q, k, v, g, memory, _total(sums), share, dq, dk, dv, *strides, *_counts(q, v), ALIKE=alike, **sizes
    )  # fmt: skip
    return dq, dk, dv, dshare.sum((0, 1, 3))[None] if alike else dshare.sum((0, 2))


memory_attention = Operator("memory_attention", _run_forward, _run_backward, tensors=6, keep=slice(1, None))
