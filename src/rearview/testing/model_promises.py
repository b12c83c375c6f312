"""What holds of every network: one function a promise, each tried on a network by name or mapping.

`MODEL_PROMISES` is the list. Claims are tried in both directions. A promise that is broken is an AssertionError.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from rearview.models.contract import Asks, Model
from rearview.testing.assertions import expect, same
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, STEPS, Spec, past_for, small

TOLERANCE = 1e-9  # float64, numbers of some hundreds through a few layers
CLASSES = 5
Promise = Callable[[Spec], None]
MODEL_PROMISES: list[Promise] = []


def promise(function: Promise) -> Promise:
    MODEL_PROMISES.append(function)
    return function


def expect_claim(found: bool, model: Model, claim: str) -> None:
    said = getattr(model.claims, claim)
    expect(found == said, f"{claim} is {said} in the network's claims, and {found} of what it does")


def moved_by_an_order_of_channels(model: Model) -> bool:
    past, order = past_for(model), torch.tensor([2, 0, 1])
    return bool((model(past[:, order]) - model(past)[:, order]).abs().max() > 1000 * TOLERANCE)


def run(model: Model, past: Tensor, mask: Tensor | None = None) -> Tensor:
    """What the network answers, with the same chance in every call."""
    torch.manual_seed(59)
    return model(past, mask=mask)


def padding() -> Tensor:
    """True on real steps: all of the first window, and the end of the second."""
    return torch.arange(LOOKBACK) >= torch.tensor([[0], [29]])


def asked(spec: Spec) -> Iterator[tuple[Model, tuple[int, ...]]]:
    """The network asked for whatever it can be, and the shape of each answer to one window."""
    claims = small(spec).claims
    asks: list[tuple[Asks, tuple[int, ...]]] = [("steps", (CHANNELS, STEPS))]
    asks += [("window", (CHANNELS, LOOKBACK))] if claims.reconstructs else []
    asks += [("classes", (CLASSES,))] if claims.classifies else []
    for what, answer in asks:
        classes = CLASSES if what == "classes" else 0
        yield small(spec, asks=what, steps=STEPS if what == "steps" else None, classes=classes), answer


@promise
def every_answer_has_its_shape(spec: Spec) -> None:
    """And every parameter a gradient, all of it finite."""
    for model, answer in asked(spec):
        past = past_for(model).requires_grad_()
        out = model.train()(past)
        expect(out.shape == (BATCH, *answer), f"the answer is {list(out.shape)}, not {[BATCH, *answer]}")
        expect(out.isfinite().all(), "an answer is not finite")
        out.sub(500).square().mean().backward()
        reached = {"the window": past, **dict(model.named_parameters())}
        for name, part in reached.items():
            expect(part.grad is not None and bool(part.grad.isfinite().all()), f"{name} has no finite gradient")


@promise
def empty_batch_is_answered(spec: Spec) -> None:
    for model, answer in asked(spec):
        before = {key: value.clone() for key, value in model.state_dict().items()}
        for training in (False, True):
            past = past_for(model.train(training), batch=0).requires_grad_()
            out = model(past)
            expect(out.shape == (0, *answer), f"the answer to an empty batch is {list(out.shape)}")
            out.sum().backward()
            expect(past.grad is not None, "the answer to an empty batch has no gradient")
        still = all(torch.equal(part, before[key]) for key, part in model.state_dict().items() if "tracked" not in key)
        expect(still, "an empty batch in training changes what is saved")
        for weights in model.weights(past):
            parts = weights.values() if isinstance(weights, dict) else [weights]
            expect(all(part.shape[0] == 0 for part in parts), "weights of an empty batch are not empty")


@promise
def scale_claim_is_true(spec: Spec) -> None:
    model = small(spec)
    past = past_for(model)
    moved = (model(7 * past - 5000) - (7 * model(past) - 5000)).abs().max()  # to the other side of 0
    expect_claim(bool(moved < 1e-5), model, "scale_free")


@promise
def channel_order_claim_is_true(spec: Spec) -> None:
    model = small(spec)
    expect_claim(not moved_by_an_order_of_channels(model), model, "equivariant_to_channels")


@promise
def channel_mixing_claim_is_true(spec: Spec) -> None:
    model = small(spec)
    past = past_for(model)
    for channel in range(CHANNELS):
        changed = past.clone()
        changed[:, channel] += 100 * torch.randn(BATCH, LOOKBACK, dtype=past.dtype)
        moved = (model(changed) - model(past)).abs().amax((0, 2)) > TOLERANCE
        others = moved[torch.arange(CHANNELS) != channel]
        expect(moved[channel], "a channel's forecast does not depend on its past")
        expect(others.all() or not others.any(), "a channel moves the forecasts of some other channels, and not of all")
        expect_claim(bool(others.any()), model, "mixes_channels")


@promise
def windows_of_a_batch_do_not_see_one_another(spec: Spec) -> None:
    model = small(spec)
    past = past_for(model)
    same(model(past[1:]), model(past)[1:], "a window is forecast otherwise beside another one", TOLERANCE)


@promise
def padding_never_moves_the_output(spec: Spec) -> None:
    for training in (False, True):
        model = small(spec).train(training)
        past, mask = past_for(model), padding()
        plain = run(model, past, mask)
        for garbage in (1e6, float("nan")):
            out = run(model, torch.where(mask[:, None], past, garbage), mask)
            same(out, plain, f"{garbage:g} in padding moves the output", TOLERANCE)
        expect(plain.isfinite().all(), "with padding the output is not finite")


@promise
def mask_without_padding_changes_nothing(spec: Spec) -> None:
    for training in (False, True):
        model = small(spec).train(training)
        past, whole = past_for(model), torch.ones(BATCH, LOOKBACK, dtype=torch.bool)
        same(run(model, past, whole), run(model, past), "a mask without padding changes the output", TOLERANCE)


@promise
def window_with_one_real_step_is_answered(spec: Spec) -> None:
    model = small(spec).train()
    past = past_for(model).requires_grad_()
    out = model(past, mask=(torch.arange(LOOKBACK) == LOOKBACK - 1).expand(BATCH, -1))
    (gradient,) = torch.autograd.grad(out.sum(), past)
    expect(out.isfinite().all(), "with one real step the output is not finite")
    expect(gradient.isfinite().all(), "with one real step a gradient is not finite")


@promise
def saved_network_is_the_same_network(spec: Spec) -> None:
    model, other = small(spec), small(spec, seed=53)
    past = past_for(model)
    if model.claims.trains:
        model.train()(past)  # moves running statistics, which must be saved too
        expect((model.eval()(past) - other(past)).abs().max() > TOLERANCE, "parameters change nothing")
    else:
        expect(not list(model.parameters()), "trains is False in the network's claims, and it has parameters")
    other.load_state_dict(load(save(model.state_dict())), strict=True)
    expect(torch.equal(model(past), other(past)), "a network with the state of another gives another output")


@promise
def unused_marks_are_ignored(spec: Spec) -> None:
    model = small(spec)
    past = past_for(model)
    marks: Any = torch.randn(BATCH, 3, LOOKBACK + STEPS, dtype=torch.float64).split([LOOKBACK, STEPS], dim=-1)
    expect(torch.equal(model(past, *marks), model(past)), "marks that were not asked for change the output")
