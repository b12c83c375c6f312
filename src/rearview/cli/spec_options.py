"""Command options made from the fields of an estimator's options: names, defaults and meanings are declared there.

What has no plain type (a mechanism with its settings, several columns) is written as text, and read here.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

from cyclopts import Group, Parameter

from rearview.cli import parse
from rearview.cli.command import declare_parameters
from rearview.cli.options import HORIZON, IN_DETAIL, LOOKBACK, MOST_USED, NETWORK, READING, THE_RUN
from rearview.core.errors import UsageError
from rearview.core.output_folder import find_model
from rearview.core.settings import field_docs
from rearview.data.read_options import ReadOptions
from rearview.estimators.options import NetworkSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Own = ParamSpec("Own")
T = TypeVar("T")
Given = dict[str, Any]
"""Options by their names as an estimator takes them, those alone that were given."""

FLAGS = {"horizon": HORIZON, "lookback": LOOKBACK, "settings": ("--set",), "training": ("--train",)}
"""Options called otherwise than their fields, or by several names."""
GROUPS = {
    NETWORK: {each.name for each in fields(NetworkSpec)} - {"model"},
    READING: ReadOptions.meanings().keys() - {"fill"} | {"channels"},
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
    "model": "auto: several simple classifiers and a network, weighed by cross-validation; one network (see `rearview "
    "list models`); or the folder of a saved classifier, which is used as it is. With attention, settings or training "
    "given, auto is patchtst.",
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
    options: "type[DataclassInstance]", *, leave_out: Collection[str] = (), first: Sequence[str] = ()
) -> Callable[[Callable[Concatenate[Given, Own], int]], Callable[..., int]]:
    """Let a command take the fields of a dataclass as options; it is handed those that were given, by name.

    `first` are the options that help shows before all others, in this order.
    """
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
        if first:
            places = {name: place for place, name in enumerate(first)}
            every = [
                _group(each, MOST_USED if each.name in places else THE_RUN if each in own else None) for each in every
            ]
            every.sort(key=lambda each: (each.kind, places.get(each.name, len(places))))
        declare_parameters(run, every)
        return run

    return decorate


def saved_folder(model: str, given: Given, usable: Collection[str]) -> Path | None:
    """The folder of a saved model that --model names; None: a network to train.

    A saved model is used as it is: options beside its device and those `usable` are refused.
    """
    if not model or not (Path(model).is_dir() or len(Path(model).parts) > 1):
        return None
    if unused := [name for name in given if name not in ("seed", "device", *usable)]:
        raise UsageError(f"--model {model} is used as it was saved; leave out the setting {unused[0]}.")
    return find_model(Path(model))


def pick(spec: type[T], given: Given, **more: object) -> T:
    """Those of the options given that are fields of a spec."""
    names = {each.name for each in fields(spec)}  # type: ignore[arg-type]
    return spec(**{name: value for name, value in given.items() if name in names}, **more)


def pick_reading(given: Given) -> ReadOptions:
    """Those of the options given that say how a file is read."""
    return ReadOptions.of(**{name: value for name, value in given.items() if name in ReadOptions.meanings()})


def _group(option: inspect.Parameter, group: Group | None) -> inspect.Parameter:
    """An option shown in a group; None, and what is no option: where it was."""
    if group is None or option.kind is not inspect.Parameter.KEYWORD_ONLY:
        return option
    return option.replace(annotation=Annotated[option.annotation, Parameter(group=group)])


def _parameter(field: "Field[Any]", meaning: str, as_text: bool) -> inspect.Parameter:
    kind, default = field.type, field.default
    if as_text:
        kind, default = str, TEXTS.get(field.name, "")
    elif kind == bool | None:
        kind, default = bool, False
    elif field.name in ("freq", "every"):
        kind = str | None
    group = next((group for group, names in GROUPS.items() if field.name in names), IN_DETAIL)
    shown = Parameter(name=FLAGS.get(field.name), help=" ".join(meaning.split()), group=group)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, shown],
    )
