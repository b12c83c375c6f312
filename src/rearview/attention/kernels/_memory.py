"""The memory of all channels, made, read and pulled at: the kernels behind `memory`.

The tokens of all channels are the rows of one matrix, and several heads lie side by side in its columns, as projections
leave them: heads of 8 channels by themselves would read 32 bytes at a time. Their memories are then the blocks on the
diagonal of one matrix. The rest of it is zeros that tensor cores multiply faster than anything could be left out.

In memory, [value + 1, key] of a batch and head is the turned M with z as its last line.
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
def _column(heads, width, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Head and channel of each column of this program, and which of them are there."""
    j = tl.arange(0, HEADS * WIDTH)
    head = tl.program_id(0) % tl.cdiv(heads, HEADS) * HEADS + j // WIDTH
    return head, j % WIDTH, (head < heads) & (j % WIDTH < width)


@triton.jit
def _batch(heads, HEADS: tl.constexpr):
    return tl.program_id(0).to(tl.int64) // tl.cdiv(heads, HEADS)


@triton.jit
def _places(r, tokens, group, head, token, h, c):
    """Where rows r of columns c of heads h lie, counted from the start of their batch."""
    return (r // tokens * group + r % tokens * token)[:, None] + (h * head + c)[None, :]


@triton.jit
def _block(MEMORY, b, vh, vc, v_inside, kh, kc, k_inside, heads, key_width, value_width):
    """M^T of several heads, as blocks on the diagonal [value column, key column], and z [key column]."""
    at = (b * heads + kh) * (value_width + 1) * key_width + kc
    same = (vh[:, None] == kh[None, :]) & v_inside[:, None] & k_inside[None, :]
    m = tl.load(MEMORY + at[None, :] + (vc * key_width)[:, None], mask=same, other=0.0)
    return m, tl.load(MEMORY + at + value_width * key_width, mask=k_inside, other=0.0)


@triton.jit
def _keep(SUMS, m, z, b, vh, vc, v_inside, kh, kc, k_inside, batches, heads, key_width, value_width):
    """Write the blocks on the diagonal, and z: this program's part of a sum [part, batch, head, value + 1, key]."""
    at = ((tl.program_id(1) * batches + b) * heads + kh) * (value_width + 1) * key_width + kc
    same = (vh[:, None] == kh[None, :]) & v_inside[:, None] & k_inside[None, :]
    tl.store(SUMS + at[None, :] + (vc * key_width)[:, None], m, mask=same)
    tl.store(SUMS + at + value_width * key_width, z, mask=k_inside)


@triton.jit
def _by_head(x, ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Sums over each head's columns [ROWS, HEADS]."""
    return tl.sum(tl.reshape(x, [ROWS, HEADS, WIDTH]), 2)


@triton.jit
def _spread(x, ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """A number for each head [ROWS, HEADS], in each of its columns."""
    return tl.reshape(tl.broadcast_to(x[:, :, None], [ROWS, HEADS, WIDTH]), [ROWS, HEADS * WIDTH])


@triton.jit
def _read(
    phi, m, z, ROWS: tl.constexpr, HEADS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, EXACT: tl.constexpr
):
    """A = phi(Q) M / (phi(Q) z + eps), and what it was divided by, in every column."""
    under = _spread(_by_head(phi * z[None, :], ROWS, HEADS, KEY) + EPS, ROWS, HEADS, VALUE)
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
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """M and z of one batch and a few heads, over one program's share of the rows."""
    b = _batch(heads, HEADS)
    k_head, k_at, k_inside = _column(heads, key_width, HEADS, KEY)
    v_head, v_at, v_inside = _column(heads, value_width, HEADS, VALUE)
    m, z = tl.zeros((HEADS * VALUE, HEADS * KEY), tl.float32), tl.zeros((ROWS, HEADS * KEY), tl.float32)
    first, end = _span(rows, ROWS)
    for start in range(first, end, ROWS):
        r = start + tl.arange(0, ROWS)
        there = r[:, None] < end
        k = tl.load(
            K + b * kb + _places(r, tokens, kg, kh, kt, k_head, k_at), mask=there & k_inside[None, :], other=0.0
        )
        v = tl.load(
            V + b * vb + _places(r, tokens, vg, vh, vt, v_head, v_at), mask=there & v_inside[None, :], other=0.0
        )
        # Rows that are not there have a phi of 1.
        phi = tl.where(there, features(k), 0.0)
        m = tl.dot(tl.trans(v.to(tl.float32)), phi, m, input_precision=EXACT)
        z += phi
    z = tl.sum(z, 0)
    _keep(SUMS, m, z, b, v_head, v_at, v_inside, k_head, k_at, k_inside, batches, heads, key_width, value_width)


@triton.jit
def join(
    Q, LOCAL, MEMORY, SHARE, OUT,
    qb, qg, qh, qt, lb, lg, lh, lt, sg, sh, ob, og, oh, ot, heads, rows, tokens, key_width, value_width,
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """O = w A + (1 - w) L of a tile of rows, for a few heads."""
    b = _batch(heads, HEADS)
    k_head, k_at, k_inside = _column(heads, key_width, HEADS, KEY)
    v_head, v_at, v_inside = _column(heads, value_width, HEADS, VALUE)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = r[:, None] < rows
    wide, narrow = there & k_inside[None, :], there & v_inside[None, :]
    q = tl.load(Q + b * qb + _places(r, tokens, qg, qh, qt, k_head, k_at), mask=wide, other=0.0)
    local = tl.load(LOCAL + b * lb + _places(r, tokens, lg, lh, lt, v_head, v_at), mask=narrow, other=0.0)
    share = tl.load(SHARE + (r // tokens * sg)[:, None] + (v_head * sh)[None, :], mask=narrow, other=0.0)
    m, z = _block(MEMORY, b, v_head, v_at, v_inside, k_head, k_at, k_inside, heads, key_width, value_width)
    a, _ = _read(features(q), m, z, ROWS, HEADS, KEY, VALUE, EXACT)
    out = local.to(tl.float32)
    out += share * (a - out)
    places = _places(r, tokens, og, oh, ot, v_head, v_at)
    tl.store(OUT + b * ob + places, out.to(OUT.dtype.element_ty), mask=narrow)


@triton.jit
def pull_memory(
    Q, G, LOCAL, MEMORY, SHARE, SUMS, DSHARE,
    qb, qg, qh, qt, gb, gg, gh, gt, lb, lg, lh, lt, sg, sh, batches, heads, rows, tokens, key_width, value_width,
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Gradients of M and z, from one program's share of the rows, and of each row's share."""
    b = _batch(heads, HEADS)
    k_head, k_at, k_inside = _column(heads, key_width, HEADS, KEY)
    v_head, v_at, v_inside = _column(heads, value_width, HEADS, VALUE)
    own, _, own_inside = _column(heads, 1, HEADS, 1)
    m, z = _block(MEMORY, b, v_head, v_at, v_inside, k_head, k_at, k_inside, heads, key_width, value_width)
    dm, dz = tl.zeros((HEADS * VALUE, HEADS * KEY), tl.float32), tl.zeros((ROWS, HEADS * KEY), tl.float32)
    first, end = _span(rows, ROWS)
    for start in range(first, end, ROWS):
        r = start + tl.arange(0, ROWS)
        there = r[:, None] < end
        wide, narrow = there & k_inside[None, :], there & v_inside[None, :]
        # Rows that are not there have no gradient, and add nothing.
        phi = features(tl.load(Q + b * qb + _places(r, tokens, qg, qh, qt, k_head, k_at), mask=wide, other=0.0))
        g = tl.load(G + b * gb + _places(r, tokens, gg, gh, gt, v_head, v_at), mask=narrow, other=0.0).to(tl.float32)
        local = tl.load(LOCAL + b * lb + _places(r, tokens, lg, lh, lt, v_head, v_at), mask=narrow, other=0.0)
        share = tl.load(SHARE + (r // tokens * sg)[:, None] + (v_head * sh)[None, :], mask=narrow, other=0.0)
        a, under = _read(phi, m, z, ROWS, HEADS, KEY, VALUE, EXACT)
        dshare = _by_head(g * (a - local.to(tl.float32)), ROWS, HEADS, VALUE)
        tl.store(DSHARE + (b * rows + r)[:, None] * heads + own[None, :], dshare, mask=there & own_inside[None, :])
        da = g * share / under
        dm = tl.dot(tl.trans(da), phi, dm, input_precision=EXACT)
        dz -= _spread(_by_head(da * a, ROWS, HEADS, VALUE), ROWS, HEADS, KEY) * phi
    dz = tl.sum(dz, 0)
    _keep(SUMS, dm, dz, b, v_head, v_at, v_inside, k_head, k_at, k_inside, batches, heads, key_width, value_width)


@triton.jit
def _add(start, places, more, inside):
    more += tl.load(start + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(start + places, more.to(start.dtype.element_ty), mask=inside)


@triton.jit
def pull(
    Q, K, V, G, MEMORY, DMEMORY, SHARE, DQ, DK, DV,
    qb, qg, qh, qt, kb, kg, kh, kt, vb, vg, vh, vt, gb, gg, gh, gt, sg, sh,
    dqb, dqg, dqh, dqt, dkb, dkg, dkh, dkt, dvb, dvg, dvh, dvt, heads, rows, tokens, key_width, value_width,
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Add the gradients that queries, keys and values of a tile of rows have by way of the memory."""
    b = _batch(heads, HEADS)
    k_head, k_at, k_inside = _column(heads, key_width, HEADS, KEY)
    v_head, v_at, v_inside = _column(heads, value_width, HEADS, VALUE)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = r[:, None] < rows
    wide, narrow = there & k_inside[None, :], there & v_inside[None, :]

    dm, dz = _block(DMEMORY, b, v_head, v_at, v_inside, k_head, k_at, k_inside, heads, key_width, value_width)
    phi = features(tl.load(K + b * kb + _places(r, tokens, kg, kh, kt, k_head, k_at), mask=wide, other=0.0))
    v = tl.load(V + b * vb + _places(r, tokens, vg, vh, vt, v_head, v_at), mask=narrow, other=0.0).to(tl.float32)
    dv = tl.dot(phi, tl.trans(dm), input_precision=EXACT)
    _add(DV + b * dvb, _places(r, tokens, dvg, dvh, dvt, v_head, v_at), dv, narrow)
    dk = (tl.dot(v, dm, input_precision=EXACT) + dz[None, :]) * _slope(phi)
    _add(DK + b * dkb, _places(r, tokens, dkg, dkh, dkt, k_head, k_at), dk, wide)

    m, z = _block(MEMORY, b, v_head, v_at, v_inside, k_head, k_at, k_inside, heads, key_width, value_width)
    phi = features(tl.load(Q + b * qb + _places(r, tokens, qg, qh, qt, k_head, k_at), mask=wide, other=0.0))
    g = tl.load(G + b * gb + _places(r, tokens, gg, gh, gt, v_head, v_at), mask=narrow, other=0.0).to(tl.float32)
    share = tl.load(SHARE + (r // tokens * sg)[:, None] + (v_head * sh)[None, :], mask=narrow, other=0.0)
    a, under = _read(phi, m, z, ROWS, HEADS, KEY, VALUE, EXACT)
    da = g * share / under
    moved = _spread(_by_head(da * a, ROWS, HEADS, VALUE), ROWS, HEADS, KEY)
    dq = (tl.dot(da, m, input_precision=EXACT) - moved * z[None, :]) * _slope(phi)
    _add(DQ + b * dqb, _places(r, tokens, dqg, dqh, dqt, k_head, k_at), dq, wide)
