"""Mechanisms from outside: two honest ones of kinds that the shelf may not hold, and softmax with one fault each.

They show that the checks take what the contract allows and catch what it forbids.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from rearview.attention import softmax
from rearview.attention.contract import Claims, Inputs, Projected, Site, causal_bias, pad_bias
from rearview.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a stranger."""

    share: float = 0.5
    """How much of the mixture comes from the group itself."""


class RunningMean(Projected):
    """The mean of all earlier values of the group and, beside it, of all groups: causal, linear, mixing groups."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        if not site.time_ordered:
            raise SettingsError(
                f"running_mean needs an order in time, and {site.host}'s tokens have none; use softmax."
            )
        self.share = settings.share
        self.loudness = nn.Parameter(torch.ones(site.groups))
        self.claims = Claims(
            causal=True,
            mixes_groups=True,
            needs_time_order=True,
            linear_in_tokens=True,
            equivariant_to_groups=False,
            takes_bias=False,
        )

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> tuple[Tensor, Any]:
        real = self._real(inputs)
        held = v * real[:, :, None, :, None]
        local = held.cumsum(3) / real.cumsum(2).clamp(min=1)[:, :, None, :, None]
        everywhere = real.sum(1, keepdim=True).cumsum(2).clamp(min=1)
        cross = held.sum(1, keepdim=True).cumsum(3) / everywhere[:, :, None, :, None]
        loudness = self.loudness[:, None, None, None]
        return self.share * loudness * local + (1 - self.share) * cross, inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        real, (tokens, heads) = self._real(inputs), (q.shape[3], q.shape[2])
        seen = real[:, :, None, :] * torch.ones(tokens, tokens, dtype=q.dtype).tril()
        local = self.share * self.loudness[:, None, None] * seen / seen.sum(-1, keepdim=True).clamp(min=1)
        of_all = seen.transpose(1, 2)
        cross = (1 - self.share) * of_all / of_all.sum((2, 3), keepdim=True).clamp(min=1)
        return {
            "local": local[:, :, None].expand(-1, -1, heads, -1, -1),
            "cross": cross[:, None, None].expand(-1, q.shape[1], heads, -1, -1, -1),
        }

    def _real(self, inputs: Inputs) -> Tensor:
        if inputs.bias is not None:
            raise SettingsError("running_mean has no scores to add a bias to; use softmax.")
        x = inputs.x
        return torch.ones(x.shape[:3], dtype=x.dtype) if inputs.mask is None else inputs.mask.to(x.dtype)


class Primed(Projected):
    """Softmax attention whose keys and values are rescaled for every pair of tokens by a learned table."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.of_keys = nn.Parameter(torch.ones(site.tokens, site.tokens, site.heads, site.per_head))
        self.of_values = nn.Parameter(torch.ones(site.tokens, site.tokens, site.heads, site.per_value))
        self.claims = Claims(causal=site.causal, tokens_alike=False)

    def primers(self) -> Tensor:
        return self.of_values

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> tuple[Tensor, Any]:
        tokens = q.shape[3]
        weights = self.operator(q, k, inputs)
        return torch.einsum("bghqk,qkhe,bghke->bghqe", weights, self.of_values[:tokens, :tokens], v), inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Tensor:
        tokens = q.shape[3]
        primed = torch.einsum("bghqe,qkhe,bghke->bghqk", q, self.of_keys[:tokens, :tokens], k)
        scores = primed * self.site.per_head**-0.5
        scores = scores if inputs.mask is None else scores + pad_bias(inputs.mask, q.dtype)
        scores = scores if inputs.bias is None else scores + inputs.bias
        return (scores + causal_bias(tokens, q) if self.site.causal else scores).softmax(-1)


def module(name: str, layer: type[Projected], settings: type[Any] = Settings) -> ModuleType:
    """A mechanism's file, as far as the shelf is concerned."""
    made = ModuleType(name, f"A stranger called {name}, for tests.\n\nAnd some details.")
    made.Settings, made.Layer = settings, layer  # type: ignore[attr-defined]
    return made


def claiming(**claims: Any) -> type[Projected]:
    """Softmax that says something else of itself."""

    class Layer(softmax.Layer):
        def __init__(self, site: Site, settings: softmax.Settings) -> None:
            super().__init__(site, settings)
            self.claims = replace(self.claims, **claims)

    return Layer


def faulty(fault: Callable[..., Any]) -> type[Projected]:
    """Softmax whose forward pass is changed by `fault(forward, x, mask, bias, carry)`."""

    class Layer(softmax.Layer):
        def forward(self, x, *, mask=None, bias=None, ages=None, carry=None):
            return fault(super().forward, x, mask, bias, carry)

    return Layer


FAULTS: dict[str, type[Projected]] = {
    "causal_claim_is_true": claiming(causal=True),
    "group_claims_are_true": claiming(mixes_groups=True),
    "token_claims_are_true": claiming(tokens_alike=False),
    "time_order_claim_is_true": claiming(needs_time_order=True),
    "linear_claim_is_true": claiming(linear_in_tokens=True),
    "bias_claim_is_true": claiming(takes_bias=False),
    "carry_claim_is_true": claiming(carries_scores=False),
    "padding_never_moves_a_real_token": faulty(lambda run, x, mask, bias, carry: run(x, bias=bias, carry=carry)),
    "operator_reproduces_the_output": faulty(lambda run, x, mask, bias, carry: run(x, mask=mask, carry=carry)),
    "rows_of_a_batch_do_not_see_one_another": faulty(
        lambda run, x, mask, bias, carry: run(x - x.mean(0), mask=mask, bias=bias, carry=carry)
    ),
    "padding_at_the_end_is_a_shorter_sequence": faulty(
        lambda run, x, mask, bias, carry: run(x - x.mean(2, keepdim=True), mask=mask, bias=bias, carry=carry)
    ),
    "gradients_are_those_of_the_function": faulty(
        lambda run, x, mask, bias, carry: run(x, mask=mask, bias=bias, carry=carry) + x.detach().square()
    ),
    "tokens_come_out_as_they_went_in": faulty(
        lambda run, x, mask, bias, carry: run(x, mask=mask, bias=bias, carry=carry).float()
    ),
    "large_and_small_values_stay_finite": faulty(
        lambda run, x, mask, bias, carry: run(x.square().square().square(), mask=mask, bias=bias, carry=carry)
    ),
}
