"""What is left open is chosen from the cases, and every choice can be told with its reason."""

from dataclasses import dataclass, fields

from rearview import models
from rearview.estimators.classify.spec import Request
from rearview.tasks.plan import GIVEN, HALF, Choice, Reasoned, with_given

LONGEST_TOKENS = 64
"""Patches in a case, about: beyond that patches grow longer, because attention costs their square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Reasoned):
    """How cases will be told apart."""

    def sections(self) -> dict[str, dict[str, Choice]]:
        """The choices as a page or file groups them."""
        return {"cases": {"lookback": self.lookback}, "model": dict(self.model), "training": dict(self.training)}


def plan(request: Request, longest: int, trained: int, held: int) -> Plan:
    """Settings for `trained` cases of up to `longest` steps, with `held` cases to pick the best epoch by."""
    lookback = Choice(longest, "the longest case to train on")
    if request.lookback is not None:
        lookback = Choice(request.lookback, GIVEN)
    model = _model(request.model, int(lookback.value))
    training = _training(trained, held)
    return Plan(
        lookback=lookback,
        model=with_given(model, request.settings),
        training=with_given(training, request.training),
    )


def _model(name: str, lookback: int) -> dict[str, Choice]:
    known = {field.name for field in fields(models.settings_of(name))}
    chosen: dict[str, Choice] = {}
    if "normalise" in known:
        chosen["normalise"] = Choice("none", "level and spread of a case may tell its class")
        if "affine" in known:
            chosen["affine"] = Choice(False, "goes with an instance norm alone")
    sizes = {"width": 64, "heads": 8, "depth": 3, "feed_forward": 128, "dropout": 0.1}
    chosen |= {key: Choice(value, "enough for cases by the hundred") for key, value in sizes.items() if key in known}
    if "pool" in known:
        chosen["pool"] = Choice("mean", "a class may show anywhere in a case")
    if {"patch", "stride"} <= known:
        patch = min(16, max(2, lookback // 6))
        while lookback // (patch // 2) > LONGEST_TOKENS:
            patch *= 2
        chosen["patch"] = Choice(patch, f"{lookback} steps a case")
        chosen["stride"] = Choice(max(1, patch // 2), HALF)
    return chosen


def _training(trained: int, held: int) -> dict[str, Choice]:
    batch = 16 if trained < 1000 else 64
    steps = -(-trained // batch)
    epochs = max(20, min(100, round(2000 / steps)))
    chosen = {
        "optimiser": Choice("adamw", "usual"),
        "learning_rate": Choice(1e-3, "usual for this size"),
        "weight_decay": Choice(1e-2, "few cases are learned by heart otherwise"),
        "batch": Choice(batch, f"{trained:,} cases to train on"),
        "epochs": Choice(epochs, f"about {epochs * steps:,} updates of {steps} batches an epoch"),
        "schedule": Choice("cosine", "falls smoothly to zero"),
        "clip": Choice(1.0, "guards against rare large gradients"),
        "patience": Choice(max(10, epochs // 4), "epochs without improvement"),
    }
    if not held:
        chosen["patience"] = Choice(None, "no cases are held out for early stopping")
    return chosen
