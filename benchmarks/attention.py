"""Forward + backward time and peak memory of each mechanism: its literal form, ours, and torch's fused softmax.

    python benchmarks/attention.py                            sizes that suit a CPU
    python benchmarks/attention.py --device cuda --out results/attention.csv

Queries, keys and values are leaves; only the mixing is measured, with what a mechanism computes from the tokens (CAPS's
gates) or for them (prime's primers; "F a leaf" has them at hand, and is the attention alone). Literal forms are the
papers' formulas written with plain operations. On a GPU every form is captured in a CUDA graph, as the training loop
will have it, so that launches do not drown the work; float32 with TF32. A ratio within one run is what counts.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from _rows import Row, append, origin, show
from rearview import attention
from rearview.attention.contract import Attention, Inputs, Projected, Site
from rearview.attention.prime.layer import attend_pairs
from rearview.attention.softmax import join_carried

Run = Callable[[], Tensor]
Size = tuple[int, int, int, int]
TOO_MUCH = 60 << 30
LITTLE = 6 << 30


@dataclass
class Case:
    """One mechanism at one size (batch, heads, tokens, head width)."""

    name: str
    spec: dict[str, Any]
    size: Size
    groups: int = 1
    literal: Callable[[Attention, Tensor, Tensor, Tensor, Tensor], Tensor] | None = None
    literal_numbers: int = 0
    """Numbers that the literal form holds at once, to leave it out where they do not fit."""
    time_ordered: bool = True
    small: bool = False
    """Whether the size suits two CPU cores."""
    causal_rival: bool = False
    masked_rival: bool = False
    """Whether fused softmax gets RBCA's mask, as a bias on every pair, which is the only way to give it one."""
    carried: bool = False
    """Whether a layer before has handed on its scores; fused softmax then gets queries and keys of both."""
    primers_at_hand: bool = False
    """Prime attention alone, without the making of its primers."""


def softmax_literal(layer: Attention, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


def rbca_literal(layer: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (scores + layer.decay(q.shape[-2], q)).softmax(-1) @ v


def toa_literal(layer: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    eye = torch.eye(q.shape[-2], device=q.device)
    scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5) @ (eye + layer.score_offset.view(-1, *eye.shape))
    weights = scores.softmax(-1) if layer.settings.kind == "softmax" else scores.relu()
    return (weights @ (eye + layer.value_offset.view(-1, *eye.shape))) @ v


def caps_literal(layer: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The per-pair formula: weights [token, token, channel] of three paths, summed."""
    signals = layer._signals(Inputs(x))
    q, k = layer._turn(q, k, Inputs(x), signals)
    p, decay = signals.p + torch.log(signals.delta), -functional.softplus(signals.g) * signals.delta
    tokens = q.shape[-2]
    seen = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril()[..., None]
    mass = torch.exp(p - p.amax(-2, keepdim=True))
    riemann = mass[..., None, :, :] / mass.cumsum(-2)[..., :, None, :]
    summed = decay.cumsum(-2)
    prefix = torch.exp((summed[..., :, None, :] - summed[..., None, :, :]).clamp(max=0))
    clock = signals.delta[..., None, :, :] / signals.delta.cumsum(-2)[..., :, None, :]
    scores = torch.einsum("...tc,...ic,...tic->...ti", q, k, (riemann + prefix + clock) * seen)
    return scores @ v


def prime_literal(layer: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    primers = layer.primers().movedim(2, 0)
    keys, values = k[..., None, :, :] * primers, v[..., None, :, :] * primers
    weights = ((keys * q[..., :, None, :]).sum(-1) * q.shape[-1] ** -0.5).softmax(-1)
    return (weights[..., None] * values).sum(-2)


class PrimersAtHand(nn.Module):
    """Prime attention alone: F is a leaf, and has a gradient of its own."""

    def __init__(self, tokens: int, heads: int, width: int) -> None:
        super().__init__()
        self.primer = nn.Parameter(1 + 0.1 * torch.randn(tokens, tokens, heads, width))

    def primers(self) -> Tensor:
        return self.primer

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = (part.flatten(0, 1) for part in (q, k, v))
        return attend_pairs(*parts, self.primer, None, q.shape[-1] ** -0.5).view(v.shape)


def mica_literal(layer: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Local attention and the memory of all channels, each written out, mixed by the gate."""
    local = softmax_literal(layer, x, q, k, v)
    features, keys = functional.elu(q) + 1, functional.elu(k) + 1
    memory = (keys.transpose(-1, -2) @ v).sum(1, keepdim=True)
    total = keys.sum((1, 3))[:, None, :, :, None]
    shared = features @ memory / (features @ total + 1e-6)
    return layer.combine(local, shared, x)


def cases() -> Iterator[Case]:
    for size, small in (((896, 16, 42, 8), True), ((4800, 4, 12, 32), False), ((600, 4, 12, 32), True)):
        yield Case("softmax", {"name": "softmax"}, size, literal=softmax_literal, small=small)
        yield Case("rbca", {"name": "rbca"}, size, literal=rbca_literal, small=small)
        yield Case("rbca, fused with its mask", {"name": "rbca"}, size, small=small, masked_rival=True)
        yield Case("rbca carried, fused with its mask", {"name": "rbca"}, size, masked_rival=True, carried=True)
        yield Case(
            "toa softmax", {"name": "toa", "kind": "softmax", "sor": False}, size, literal=toa_literal, small=small
        )
    for size, small in (((32, 8, 512, 64), False), ((8, 8, 2048, 64), False), ((2, 8, 512, 64), True)):
        for kind in ("softmax", "relu", "gated"):
            spec = {"name": "toa", "kind": kind, "sor": False}
            yield Case(f"toa {kind}", spec, size, literal=None if kind == "gated" else toa_literal, small=small)
        yield Case("rbca", {"name": "rbca"}, size, literal=rbca_literal, small=small)
        yield Case("rbca, fused with its mask", {"name": "rbca"}, size, small=small, masked_rival=True)
        yield Case("rbca, fused causal", {"name": "rbca"}, size, causal_rival=True)
        learned = {"name": "rbca", "learnable": True}
        yield Case("rbca learned, fused with its mask", learned, size, small=small, masked_rival=True)
    window = {"name": "rbca", "bias": "similarity_power_law", "alpha": 0.5, "window": "auto"}
    for tokens in (2048, 4096, 8192, 16384, 32768):
        yield Case("rbca window=auto", window, (8, 8, tokens, 64), causal_rival=True)
    yield Case("rbca window=auto", window, (1, 8, 2048, 64), small=True, causal_rival=True)
    for size, small in (((224, 4, 192, 8), False), ((224, 4, 192, 32), False), ((16, 4, 192, 8), True)):
        batch, heads, tokens, width = size
        numbers = 6 * batch * heads * tokens * tokens * width
        yield Case(
            "caps",
            {"name": "caps"},
            size,
            literal=caps_literal,
            literal_numbers=numbers,
            small=small,
            causal_rival=True,
        )
    for size, small in (((8, 4, 8192, 32), False), ((1, 4, 65536, 32), False), ((1, 4, 8192, 32), True)):
        yield Case("caps", {"name": "caps"}, size, small=small, causal_rival=True)
    for batch, tokens, width, small in (
        (32, 21, 128, True),
        (32, 137, 128, True),
        (4, 321, 512, False),
        (2, 862, 128, False),
    ):
        size = (batch, 8, tokens, width // 8)
        numbers = 4 * batch * tokens * tokens * width
        for alone in (True, False):
            yield Case(
                "prime, F a leaf" if alone else "prime",
                {"name": "prime"},
                size,
                literal=prime_literal,
                literal_numbers=numbers,
                time_ordered=False,
                small=small and not alone,
                primers_at_hand=alone,
            )
    for batch, small in ((8, False), (1, True)):
        spec = {"name": "mica", "gate": "layerwise"}
        yield Case("mica beta", spec, (batch, 4, 12, 32), groups=600, literal=mica_literal, small=small)


def measure(case: Case, device: str, rounds: int) -> Row:
    batch, heads, tokens, width = case.size
    site = Site(groups=case.groups, tokens=tokens, width=heads * width, heads=heads, time_ordered=case.time_ordered)
    torch.manual_seed(0)
    name, settings = attention.split(case.spec)
    alone = case.primers_at_hand
    layer = PrimersAtHand(tokens, heads, width) if alone else attention.create(name, site, **settings)
    layer = layer.to(device)
    x = torch.randn(batch, case.groups, tokens, heads * width, device=device)
    q, k, v = (torch.randn(batch, case.groups, heads, tokens, width, device=device).requires_grad_() for _ in range(3))
    cotangent = torch.randn_like(v)
    wanted = [q, k, v, *layer.parameters()]

    def make_step(run: Run) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(run(), wanted, cotangent, allow_unused=True)

    earlier = make_carry(layer, x, q, k, v) if case.carried else None
    forms: dict[str, Callable[[], Any]] = {"ours": make_step(lambda: mix(layer, x, q, k, v, earlier))}
    fits = 4 * max(case.literal_numbers, 3 * batch * case.groups * heads * tokens * tokens)
    if case.literal is not None and fits < (TOO_MUCH if device == "cuda" else LITTLE):
        forms["literal"] = make_step(lambda: case.literal(layer, x, q, k, v))  # type: ignore[misc]
    forms["fused softmax"] = fused_softmax(case, layer, [*join_carried(q, k, earlier), v], cotangent)
    found = {form: _time(step, device, rounds) for form, step in forms.items()}
    row: Row = {
        "mechanism": case.name,
        "batch": batch * case.groups,
        "heads": heads,
        "tokens": tokens,
        "head_width": width,
    }
    for form in ("ours", "literal", "fused softmax"):
        ms, mib = found.get(form, (None, None))
        row |= {f"{form} ms": ms, f"{form} MiB": mib}
    ours = found["ours"][0]
    row["to literal"] = ours / found["literal"][0] if "literal" in found else None
    row["to fused"] = ours / found["fused softmax"][0]
    return row


def fused_softmax(case: Case, layer: Any, parts: list[Tensor], cotangent: Tensor) -> Callable[[], Any]:
    """A step of torch's fused attention on the same numbers."""
    flat = [part.detach().flatten(0, 1).requires_grad_() for part in parts]
    cotangent, mask = cotangent.flatten(0, 1), None
    if case.masked_rival:
        mask = layer.decay(flat[0].shape[-2], flat[0]).detach() * (2 if case.carried else 1)
        mask = mask.expand(*flat[0].shape[:3], flat[0].shape[2])
    scale = case.size[3] ** -0.5
    attend = functional.scaled_dot_product_attention

    def step() -> Any:
        out = attend(*flat, attn_mask=mask, is_causal=case.causal_rival, scale=scale)
        return torch.autograd.grad(out, flat, cotangent)

    return step


def make_carry(layer: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """What a layer before would have handed on."""
    with torch.no_grad():
        return layer.mix(q.roll(1, 0), k.roll(1, 0), v, Inputs(x, carry=()))[1]


def mix(
    layer: nn.Module, x: Tensor, q: Tensor, k: Tensor, v: Tensor, carry: tuple[Tensor, ...] | None = None
) -> Tensor:
    """What the layer does between its projections."""
    if isinstance(layer, PrimersAtHand):
        return layer.mix(q, k, v)
    if isinstance(layer, Projected):
        return layer.mix(q, k, v, Inputs(x, carry=carry))[0]
    local, _ = layer.local.mix(q, k, v, Inputs(x))  # type: ignore[union-attr, operator]
    return layer.combine(local, layer._across(q, k, v, None), x)  # type: ignore[operator]


def _time(step: Callable[[], Any], device: str, rounds: int) -> tuple[float, float | None]:
    """Median milliseconds, and MiB held beyond what lies there already."""
    gc.collect()
    if device == "cpu":
        step()
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - started))
        return statistics.median(times), None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        step()
    peak = (torch.cuda.max_memory_allocated() - before) / (1 << 20)
    replay = _capture(step)
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times), peak


def _capture(step: Callable[[], Any]) -> Callable[[], Any]:
    """The step as a CUDA graph, or as it is where it can't be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    except RuntimeError as problem:
        torch.cuda.synchronize()
        print(f"not captured: {str(problem).splitlines()[0]}")
        return step
    return graph.replay


def ceilings() -> str:
    """What this GPU reaches at its best, to set a form's bytes and operations against."""
    side, numbers = 8192, 1 << 28
    a, b = torch.randn(2, side, side, device="cuda")
    here, there = torch.empty(2, numbers, device="cuda")
    product, _ = _time(lambda: a @ b, "cuda", 15)
    copy, _ = _time(lambda: there.copy_(here), "cuda", 15)
    operations, moved = 2 * side**3 / product * 1e3, 2 * 4 * numbers / copy * 1e3
    return f"ceilings: {operations / 1e12:.0f} TFLOP/s in a product of TF32, {moved / 1e12:.2f} TB/s in a copy"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", help="mechanisms whose name starts so")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    rows = []
    for case in cases():
        if (options.device == "cpu" and not case.small) or not case.name.startswith(options.only or ""):
            continue
        try:
            row = measure(case, options.device, options.rounds)
        except torch.OutOfMemoryError:
            print(f"{case.name} {case.size}: out of memory")
            continue
        rows.append({**row, "device": where, "torch": torch.__version__, **origin()})
        show([row])
    print()
    show([{name: row[name] for name in row if name not in origin()} for row in rows])
    if options.device == "cuda":
        print(ceilings())
    append(options.out, rows)


if __name__ == "__main__":
    main()
