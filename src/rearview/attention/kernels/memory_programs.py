"""The memory of all channels, made, read and pulled at: the kernels behind `memory`.

The tokens of all channels are the rows of one matrix, and several heads lie side by side in its columns, as projections
leave them: heads of 8 channels by themselves would read 32 bytes at a time. Their memories are then the blocks on the
diagonal of one matrix, and copies of z, one for each value, those of another. The rest of both is zeros that tensor
cores multiply faster than anything could be left out. Sums over a head's channels are products with such matrices too,
so that no tile changes its shape.

In memory, [value + 1, key] of a batch and head is the turned M with z as its last line. Where all tensors are DENSE,
their rows are equally far apart and their columns side by side, so that four numbers are read at a time.
"""

import triton
import triton.language as tl

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
    """Which columns are inside the tensor."""
    there = h < heads
    if not DENSE:
        there = there & (c < width)
    return there


@triton.jit
def _batch(heads, HEADS: tl.constexpr):
    return tl.program_id(0).to(tl.int64) // tl.cdiv(heads, HEADS)


@triton.jit
def _places(r, j, h, c, tokens, group, head, token, DENSE: tl.constexpr):
    """Where rows r of columns j lie, channels c of heads h, counted from the start of their batch."""
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
    """What is there, times `rest`, and more."""
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
