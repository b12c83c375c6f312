"""Command options made from the fields of an estimator's options: names, defaults and meanings are declared there.

What has no plain type (a mechanism with its settings, several columns) is written as text, and read here.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

from cyclopts import Group, Parameter

from rearview.cli import parse
from rearview.cli.options import HORIZON, LOOKBACK
from rearview.core.settings import field_docs
from rearview.data.read_options import ReadOptions
from rearview.estimators.options import NetworkSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Own = ParamSpec("Own")
T = TypeVar("T")
Given = dict[str, Any]
"""Options by their names as an estimator takes them, those alone that were given."""

FLAGS = {
    "horizon": HORIZON,
    "lookback": LOOKBACK,
    "settings": ("--set",),
    "training": ("--train",),
}
"""Options called otherwise than their fields, or by several names."""
GROUPS = {
    Group.create_ordered("Network and training"): {each.name for each in fields(NetworkSpec)} - {"model"},
    Group.create_ordered("Reading the file"): ReadOptions.meanings().keys() - {"fill"} | {"channels"},
}
"""Options that are shown apart from what is asked for."""
READERS: Mapping[str, Callable[[str], object]] = {
    "attention": parse.mechanism,
    "loss": parse.loss,
    "level": lambda text: parse.numbers(text, "--level"),
    "settings": lambda text: parse.pairs(text, "--set"),
    "training": lambda text: parse.pairs(text, "--train"),
    "sentinels": parse.missing_marks,
    "threshold": lambda text: parse.number_or_word(text) if text else None,
    **dict.fromkeys(
        ("id_col", "target", "known", "static", "holidays", "drop", "channels", "missing"),
        lambda text: parse.words(text) or None,
    ),
}
"""Readers of options that are written as text; None: as if it was not given."""
TEXTS = {"level": "80,95", "loss": "mse", "sentinels": "auto"}
"""Defaults as they are written."""
HELP = {
    "attention": "A mechanism, such as softmax or rbca:alpha=0.5. See `rearview list attentions`; default: the "
    "network's own.",
    "loss": "What a point forecast minimises: mse, mae, huber (huber:delta=2) or fredf (fredf:time_share=0.3).",
    "level": "Levels of the intervals in percent, by commas.",
    "settings": "Settings of the network, such as width=64,depth=2. See `rearview describe MODEL`.",
    "training": "Settings of the training, such as epochs=30,batch=64. See `rearview describe training`.",
    "sentinels": "Values that stand for missing, by commas; auto finds isolated ones (-9999, 1e20), none keeps all.",
    "id_col": "Column (or columns, by commas) that name the series of a long file.",
    "target": "Columns of a wide file to forecast, by commas; the others are inputs. Default: every column.",
    "known": "Inputs known in the future, numbers or categories, by commas.",
    "static": "Columns of a long file that describe its series, by commas; default: those with one value in each.",
    "holidays": "Countries or parts of them, by commas, such as DE,AT or DE-BY: public holidays are known inputs.",
    "drop": "Columns to leave out, by commas.",
    "missing": "Words that stand for a missing value, by commas, such as closed,n.v.",
    "channels": "Columns to look at, by commas; default: every column of numbers.",
    "threshold": "quantile, pot (peaks over threshold), robust, or a number; default: quantile, without --fit robust.",
    "quantile": "Share of ordinary rows below the threshold; giving it chooses --threshold quantile.",
    "risk": "Share of ordinary rows above the threshold; giving it chooses --threshold pot.",
}
"""Help of options that are written otherwise on a command line than in Python."""


def takes(
    options: "type[DataclassInstance]", *, leave_out: Collection[str] = ()
) -> Callable[[Callable[Concatenate[Given, Own], int]], Callable[..., int]]:
    """Let a command take the fields of a dataclass as options; it is handed those that were given, by name."""
    taken = {each.name: each for each in fields(options) if each.name not in leave_out}
    readers = {name: READERS[name] for name, each in taken.items() if name in READERS and each.type != str | None}
    meanings = {**ReadOptions.meanings(), **field_docs(options)}
    meanings |= {name: text for name, text in HELP.items() if name in readers or name not in READERS}

    def decorate(command: Callable[Concatenate[Given, Own], int]) -> Callable[..., int]:
        @wraps(command)
        def run(*args: Any, **kwargs: Any) -> int:
            given = {name: kwargs.pop(name) for name in taken if name in kwargs}
            read = {name: readers[name](value) if name in readers else value for name, value in given.items()}
            return command({name: value for name, value in read.items() if value is not None}, *args, **kwargs)

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        added = [_parameter(each, meanings[each.name], each.name in readers) for each in taken.values()]
        # Files first, then what is asked for, then what every command has.
        every = sorted([*own, *added], key=lambda each: (each.kind, each in own and each.name != "model"))
        built: Any = run
        built.__signature__ = inspect.Signature(every)
        built.__annotations__ = {each.name: each.annotation for each in every}
        del built.__wrapped__
        return run

    return decorate


def pick(spec: type[T], given: Given, **more: object) -> T:
    """Those of the options given that are fields of a spec."""
    names = {each.name for each in fields(spec)}  # type: ignore[arg-type]
    return spec(**{name: value for name, value in given.items() if name in names}, **more)


def pick_reading(given: Given) -> ReadOptions:
    """Those of the options given that say how a file is read."""
    return ReadOptions.of(**{name: value for name, value in given.items() if name in ReadOptions.meanings()})


def _parameter(field: "Field[Any]", meaning: str, as_text: bool) -> inspect.Parameter:
    kind, default = field.type, field.default
    if as_text:
        kind, default = str, TEXTS.get(field.name, "")
    elif kind == bool | None:
        kind, default = bool, False
    elif field.name in ("freq", "every"):
        kind = str | None
    shown = Parameter(name=FLAGS.get(field.name), help=" ".join(meaning.split()))
    for group, names in GROUPS.items():
        if field.name in names:
            shown = Parameter.combine(shown, Parameter(group=group))
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, shown],
    )
