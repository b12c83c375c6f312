"""A fitted forecaster on disk, with the last rows it can forecast from."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.core.model_folder import FORECASTER, DamagedModel, strip_prefix
from rearview.data.panel import Clock, Finding, Layout, Panel
from rearview.data.statics import Statics, StaticScale
from rearview.data.step import Step
from rearview.estimators.auto.effects import Effects, WithEffects
from rearview.estimators.auto.ensemble import Ensemble, Standing
from rearview.estimators.auto.linear import Linear
from rearview.estimators.auto.statistical import Statistical
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.forecast.predictor import Predictor
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.forecast.zero_shot import ZeroShot
from rearview.estimators.storage import Facts, Stored, describe_network, load_model, to_tensors
from rearview.pretrained import weights
from rearview.tasks.conformal import Residuals
from rearview.tasks.objectives import Forecast
from rearview.tasks.window_ridge import RANKS, Ridge

_PLAIN = ("name", "ids", "columns", "targets", "known", "step", "calendar", "notes", "windows")
_OF_ALL = ("columns", "notes", "step")
_OF_ENSEMBLE = ("ids", "targets", "known", "period", "interrupted")
_EFFECTS = ("coefficients", "centre", "low", "high", "factor", "share")
_ROWS = ("values", "centre", "offsets", "first")


def save(folder: Path, fitted: Predictor, tail: Panel, reading: Facts) -> None:
    """Write a fitted forecaster, its last rows and how its tables are read."""
    facts, tensors = _pack(fitted)
    facts |= {
        "reading": reading,
        "tail": {"ids": tail.ids, "columns": tail.columns, "layout": asdict(tail.layout)},
    }
    if tail.clock is not None:
        facts["tail"]["clock"] = asdict(tail.clock)
    if tail.statics is not None:
        facts["tail"]["statics"] = tail.statics.names
        tensors |= to_tensors({"tail.statics": tail.statics.values})
    tensors |= to_tensors(
        {
            **{f"tail.{name}": getattr(tail, name) for name in _ROWS},
            "tail.stamps": tail.stamps.astype(np.int64),
            "tail.observed": tail.observed,
            "tail.anchors": None if tail.anchors is None else tail.anchors.astype(np.int64),
        }
    )
    FORECASTER.save(folder, facts, tensors)


def load(folder: Path, device: str | None = None) -> tuple[Predictor, Panel, Facts]:
    """Load what `save` wrote, on another device if one is named; a missing, damaged or newer model is refused."""
    return load_model(FORECASTER, folder, device, _read)


def _read(stored: Stored) -> tuple[Predictor, Panel, Facts]:
    fitted, reading = _unpack(stored), stored.facts["reading"]
    for name in (stored.facts["request"]["model"], reading.get("alias")):
        if not isinstance(name, str | None):
            raise DamagedModel(f"its name is {name!r}")
    return fitted, _read_tail(stored, fitted), {**reading, "whole_ids": bool(reading["whole_ids"])}


def _pack(fitted: Predictor) -> tuple[Facts, dict[str, Tensor]]:
    """Facts and tensors of a forecaster; those of its parts stand under their own names."""
    if isinstance(fitted, ZeroShot):
        facts = {name: getattr(fitted, name) for name in _PLAIN}
        facts |= {"kind": "zero_shot", "attention": fitted.attention, "stretch": [*fitted.stretch.items()]}
        shared, tensors = describe_network(fitted, {"mean": fitted.mean, "std": fitted.std})
        return {**shared, **facts}, {name: _halve(tensor) for name, tensor in tensors.items()}
    if isinstance(fitted, Fitted):
        facts = {**{name: getattr(fitted, name) for name in _PLAIN}, "quantiles": fitted.task.quantiles}
        facts["adds_up"] = fitted.adds_up
        facts |= _pack_statics(fitted.statics)
        residuals = fitted.residuals
        arrays = {
            "mean": fitted.mean,
            "std": fitted.std,
            "residuals.sorted": None if residuals is None else residuals.sorted,
            "residuals.counts": None if residuals is None else residuals.counts,
        }
        shared, tensors = describe_network(fitted, arrays)
        return {**shared, **facts}, tensors
    shared = {"request": fitted.spec.to_dict(), "columns": fitted.columns, "step": fitted.step, "notes": fitted.notes}
    if isinstance(fitted, Statistical):
        return {**shared, "kind": "statistics", "model": fitted.model, "seasons": fitted.seasons}, {}
    if isinstance(fitted, Linear):
        ridge = fitted.ridge
        arrays = {"coefficients": ridge.coefficients, "errors": ridge.errors, "pools": ridge.pools}
        facts = {"kind": "linear", "ids": fitted.ids, "period": fitted.period, "season": ridge.season}
        facts |= _pack_statics(fitted.statics)
        return {**shared, **facts}, to_tensors(arrays)
    if isinstance(fitted, WithEffects):
        effects = fitted.effects
        inner, tensors = _pack(fitted.inner)
        facts = {**shared, "kind": "effects", "known": fitted.known, "ids": effects.ids, "inner": inner}
        # Members may share their effects, and a file of tensors shares no memory.
        arrays = {name: getattr(effects, name).copy() for name in _EFFECTS}
        if effects.statics is not None:
            facts["described"] = effects.statics.names
            arrays["described"] = effects.statics.values.copy()
        return facts, to_tensors(arrays) | {f"inner.{name}": tensor for name, tensor in tensors.items()}
    if isinstance(fitted, Ensemble):
        members = [_pack(member) for member in fitted.members]
        facts = {
            **shared,
            **{name: getattr(fitted, name) for name in _OF_ENSEMBLE},
            "kind": "ensemble",
            "members": [member for member, _ in members],
            "stretch": [*fitted.stretch.items()],
            "leaderboard": [asdict(one) for one in fitted.leaderboard],
            "findings": [asdict(finding) for finding in fitted.findings],
        }
        tensors = to_tensors({"weights": fitted.weights, "common": fitted.common})
        for number, (_, parts) in enumerate(members):
            tensors |= {f"members.{number}.{name}": tensor for name, tensor in parts.items()}
        return facts, tensors
    raise SettingsError(f"{fitted.name} can't be saved.")


def _unpack(stored: Stored) -> Predictor:
    """The forecaster of facts and tensors that `_pack` made."""
    readers: dict[str, Callable[[Stored, ForecastSpec], Predictor]] = {
        "network": _read_network,
        "zero_shot": _read_zero_shot,
        "statistics": _read_statistical,
        "linear": _read_linear,
        "effects": _read_effects,
        "ensemble": _read_ensemble,
    }
    kind = stored.facts.get("kind", "network")
    if kind not in readers:
        raise ValueError(f"a forecaster of kind {kind!r}")
    return readers[kind](stored, ForecastSpec(**stored.facts["request"]))


def _read_network(stored: Stored, spec: ForecastSpec) -> Fitted:
    facts, residuals = stored.facts, None
    if "residuals.sorted" in stored.tensors:
        residuals = Residuals(stored.array("residuals.sorted"), stored.array("residuals.counts", "i"))
    fitted = Fitted(
        spec=spec,
        network=stored.network(facts["name"], spec),
        task=Forecast(spec.horizon, spec.loss, facts["quantiles"]),
        residuals=residuals,
        statics=_read_statics(facts),
        adds_up=facts.get("adds_up") is True,
        **stored.fields(_PLAIN),
        **stored.scale(len(facts["ids"]), len(facts["columns"])),
    )
    _check_residuals(fitted)
    steps = fitted.network.shape.steps
    if fitted.task.steps != steps:
        raise DamagedModel(f"its horizon is {spec.horizon} and its network gives {steps} numbers")
    return fitted


def _read_zero_shot(stored: Stored, spec: ForecastSpec) -> ZeroShot:
    facts = stored.facts
    return ZeroShot(
        spec=spec,
        network=stored.network(weights.NAME, replace(spec, attention=facts["attention"])),
        attention=facts["attention"],
        stretch={float(level): float(factor) for level, factor in facts["stretch"]},
        task=Forecast(spec.horizon),
        residuals=None,
        **stored.fields(_PLAIN),
        **stored.scale(len(facts["ids"]), len(facts["columns"])),
    )


def _read_statistical(stored: Stored, spec: ForecastSpec) -> Statistical:
    return Statistical(spec=spec, **stored.plain(("model", "seasons", *_OF_ALL)))


def _read_linear(stored: Stored, spec: ForecastSpec) -> Linear:
    scale = _read_statics(stored.facts)
    features = 0 if scale is None else len(scale.names)
    arrays = stored.arrays(("coefficients", "errors")) | stored.arrays(("pools",), kinds="i")
    ridge = Ridge(**arrays, season=stored.facts["season"], features=features)
    linear = Linear(spec=spec, ridge=ridge, statics=scale, **stored.plain(("ids", "period", *_OF_ALL)))
    _check_ridge(linear)
    return linear


def _read_effects(stored: Stored, _: ForecastSpec) -> WithEffects:
    facts, own = stored.facts, stored.plain(("ids", "known", "columns"))
    described = Statics(tuple(facts["described"]), stored.array("described")) if "described" in facts else None
    inner = _unpack(Stored(facts["inner"], strip_prefix("inner.", stored.tensors)))
    series, targets, known, columns = len(own["ids"]), inner.targets, own["known"], len(own["columns"])
    if columns != targets + known:
        raise DamagedModel(f"it has {columns} columns, {known} of them known, and forecasts {targets}")
    effects = Effects(
        ids=own["ids"],
        coefficients=stored.shaped("coefficients", series, targets, known),
        **{name: stored.shaped(name, series, known) for name in ("centre", "low", "high")},
        factor=stored.shaped("factor", series, targets, kinds="b"),
        share=stored.shaped("share", series, targets),
        statics=described,
    )
    return WithEffects(inner=inner, effects=effects, columns=own["columns"], known=known)


def _read_ensemble(stored: Stored, spec: ForecastSpec) -> Ensemble:
    facts, own = stored.facts, stored.plain((*_OF_ENSEMBLE, *_OF_ALL))
    members = tuple(
        _unpack(Stored(member, strip_prefix(f"members.{number}.", stored.tensors)))
        for number, member in enumerate(facts["members"])
    )
    for member in members:
        if (member.spec.horizon, member.targets) != (spec.horizon, own["targets"]):
            raise DamagedModel(
                f"it forecasts {spec.horizon} steps of {own['targets']} columns, and {member.name} among its parts "
                f"{member.spec.horizon} of {member.targets}"
            )
    return Ensemble(
        spec=spec,
        members=members,
        weights=stored.shaped("weights", len(own["ids"]) * own["targets"], len(members)),
        common=stored.shaped("common", len(members)),
        **own,
        stretch={float(level): float(factor) for level, factor in facts["stretch"]},
        leaderboard=tuple(Standing(**{**one, "uses": tuple(one.get("uses", ()))}) for one in facts["leaderboard"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
    )


def _pack_statics(scale: StaticScale | None) -> Facts:
    return {} if scale is None else {"statics": asdict(scale)}


def _read_statics(facts: Facts) -> StaticScale | None:
    return StaticScale(**facts["statics"]) if "statics" in facts else None


def _halve(tensor: Tensor) -> Tensor:
    """Numbers of single precision as bfloat16 where it holds them exactly, as it does weights that were not tuned."""
    if tensor.dtype != torch.float32:
        return tensor
    half = tensor.bfloat16()
    return half if torch.equal(half.float(), tensor) else tensor


def _check_ridge(linear: Linear) -> None:
    """Refuse coefficients that do not fit the horizon, the variables or one another."""
    ridge, steps = linear.ridge, linear.spec.horizon
    pools, shape = len(ridge.coefficients), ridge.coefficients.shape
    fits = (
        len(shape) == 3
        and shape[1] > ridge.features
        and shape[2] == steps
        and ridge.errors.shape == (pools, steps, RANKS)
    )
    named = ridge.pools.shape == (len(linear.ids) * linear.targets,)
    if not (fits and named and isinstance(ridge.season, int) and 0 <= ridge.pools.min() <= ridge.pools.max() < pools):
        raise DamagedModel("its linear model is of another horizon or number of series")


def _check_residuals(fitted: Fitted) -> None:
    """Refuse residuals of another horizon, or none where intervals are to be drawn from them."""
    if fitted.residuals is None:
        return
    ordered, counts = fitted.residuals.sorted, fitted.residuals.counts
    pools = fitted.targets if len(fitted.ids) == 1 else 1
    fits = ordered.ndim == 3 and ordered.shape[:2] == counts.shape == (pools, fitted.spec.horizon)
    if not fits or not 0 <= counts.min() <= counts.max() <= ordered.shape[2]:
        raise DamagedModel("its residuals are of another horizon or number of columns")


def _read_tail(stored: Stored, fitted: Predictor) -> Panel:
    step, tail = Step.parse(fitted.step), stored.facts["tail"]
    layout = tail["layout"]
    levels = tuple((name, tuple(words)) for name, words in layout.get("levels", ()))

    def stamps(name: str) -> NDArray[np.generic]:
        numbers = stored.array(name, "i")
        return numbers if step.unit == "int" else numbers.astype("datetime64[us]")

    return Panel(
        **stored.arrays(("values", "centre"), "tail."),
        **stored.arrays(("offsets", "first"), "tail.", kinds="i"),
        observed=stored.array("tail.observed", "b") if "tail.observed" in stored.tensors else None,
        stamps=stamps("tail.stamps"),
        **Stored(tail, {}).plain(("ids", "columns")),
        targets=fitted.targets,
        known=fitted.known,
        step=step,
        layout=Layout(**{**layout, "static": tuple(layout.get("static", ())), "levels": levels}),
        statics=Statics(tuple(tail["statics"]), stored.array("tail.statics")) if "statics" in tail else None,
        clock=Clock(**tail["clock"]) if "clock" in tail else None,
        # Models saved before anchors were kept have none: their rows tell the day of the month, as far as they do.
        anchors=stamps("tail.anchors") if "tail.anchors" in stored.tensors else None,
    )
