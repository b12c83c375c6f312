"""The options of reading, declared once: `load`, the estimators and the command line all take them from here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, TypedDict, Unpack, get_args, get_type_hints

from rearview.core.errors import SettingsError, did_you_mean
from rearview.data.step import Step

Names = str | Sequence[str]
Fill = Literal["last", "linear", "mean", "zero"]
FILLS: tuple[Fill, ...] = get_args(Fill)
Decimal = Literal["point", "comma"]
Combination = Literal["sum", "mean", "count", "min", "max", "first", "last"]
Duplicates = Literal["mean", "sum", "first", "last"]
Levels = tuple[tuple[str, tuple[str, ...]], ...]
"""Categories by column, the one that others are compared with first."""
Sentinels = Sequence[float] | Literal["auto", "marks"]


class ReadKeywords(TypedDict, total=False):
    """The options as keywords, in every form a caller may write them; None stands for the default."""

    id_col: Names | None
    time_col: str | None
    target_col: str | None
    target: Names | None
    known: Names | None
    static: Names | None
    holidays: Names | None
    drop: Names | None
    together: bool | None
    freq: str | Step | None
    sentinels: Sentinels | None
    fill: Fill | None
    missing: Names | None
    decimal: Decimal | None
    dayfirst: bool | None
    date_format: str | None
    timezone: str | None
    duplicates: Duplicates | None
    every: str | Step | None
    agg: Combination | None
    sheet: str | None
    row_by_row: bool | None
    trained: Sequence[str] | None
    levels: Levels | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file or frame becomes a panel; what is left at its default is inferred from the data."""

    id_col: Annotated[tuple[str, ...], "Columns that name the series of a long table; several are joined by '/'."] = ()
    time_col: Annotated[str | None, "The time column; default: inferred."] = None
    target_col: Annotated[str | None, "The column to forecast in a long table; default: y."] = None
    target: Annotated[
        tuple[str, ...] | None,
        "Columns to forecast; None: every column of a wide table, y of a long one; empty: inputs alone are read.",
    ] = None
    known: Annotated[tuple[str, ...], "Inputs that are known in the future; other inputs end at the cutoff."] = ()
    static: Annotated[
        tuple[str, ...],
        "Columns of a long table that describe its series; default: inputs that have one value in each series.",
    ] = ()
    holidays: Annotated[
        tuple[str, ...], "Countries, or parts of them, whose public holidays are known inputs, such as DE or DE-BY."
    ] = ()
    drop: Annotated[tuple[str, ...], "Columns to leave out."] = ()
    together: Annotated[bool, "Align the series of a long table as columns of one series."] = False
    freq: Annotated[Step | None, "The step, such as 15min, h, D, B, W, MS, ME, BME; default: inferred."] = None
    sentinels: Annotated[
        tuple[float, ...] | Literal["auto", "marks"],
        "Values that stand for missing; auto looks for isolated ones such as -9999 or 1e20, an empty list keeps all.",
    ] = "auto"
    fill: Annotated[
        Fill, "What stands in missing cells: the last value, a linear bridge, the mean of the series, or zero."
    ] = "last"
    missing: Annotated[tuple[str, ...], "Words that stand for a missing value, such as n.a. or closed."] = ()
    decimal: Annotated[Decimal | None, "The decimal mark, point or comma; default: inferred."] = None
    dayfirst: Annotated[bool | None, "Dates such as 01/02/2012 begin with the day; default: inferred."] = None
    date_format: Annotated[str | None, "How stamps are written, such as %d.%m.%Y; default: inferred."] = None
    timezone: Annotated[
        str | None,
        "The time zone of stamps that are written without one, such as Europe/Berlin, or that forecasts are given in "
        "where stamps have offsets; default: none.",
    ] = None
    duplicates: Annotated[
        Duplicates | None, "What several rows of one stamp become: their mean, sum, first or last; default: refused."
    ] = None
    every: Annotated[Step | None, "Gather rows by this step, such as h, D, W or MS, as agg says."] = None
    agg: Annotated[Combination | None, "What gathered rows become: sum, mean, count, min, max, first or last."] = None
    sheet: Annotated[str | None, "The sheet of an Excel workbook, by name; default: the first."] = None
    row_by_row: Annotated[
        bool, "Take a benchmark file as it stands: nothing sorted, added, dropped or taken for missing."
    ] = False
    trained: Annotated[tuple[str, ...], "Columns that a model was trained on: text in them is refused."] = ()
    levels: Annotated[Levels, "The categories that a model was trained on, by column."] = ()

    @classmethod
    def of(cls, **given: Unpack[ReadKeywords]) -> "ReadOptions":
        """The options in their one form: names as tuples, the step as a `Step`; an unknown one is refused by name."""
        known = [option.name for option in fields(cls)]
        for name in given:
            if name not in known:
                raise SettingsError(f"reading has no option {name!r}.{did_you_mean(name, known)}")
        values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for name in ("id_col", "target", "known", "static", "holidays", "drop", "missing", "trained"):
            if name in values:
                values[name] = names_in(values[name])
        for name in ("freq", "every"):
            if isinstance(step := values.get(name), str):
                values[name] = Step.parse(step, name)
        if "sentinels" in given and given["sentinels"] not in ("auto", "marks"):
            # Here None is a value of its own: it keeps every cell, as an empty list does.
            values["sentinels"] = tuple(given["sentinels"] or ())
        return cls(**values)

    def __post_init__(self) -> None:
        check_fill(self.fill)
        for name, choices in {"decimal": Decimal, "duplicates": Duplicates, "agg": Combination}.items():
            value, known = getattr(self, name), get_args(choices)
            if value is not None and value not in known:
                raise SettingsError(
                    f"{name} is {value!r}; it can be one of {', '.join(known)}.{did_you_mean(str(value), known)}"
                )
        if (self.every is None) != (self.agg is None):
            raise SettingsError(
                "every and agg go together: every D and agg sum (--every D --agg sum) make one value of a day's rows."
            )
        if self.every is not None and self.freq not in (None, self.every):
            raise SettingsError(f"freq is {self.freq} and every is {self.every}; rows gathered so have that step.")
        if self.every is not None and self.every.unit == "B":
            raise SettingsError("every is B; gather rows by D and leave weekends to the data, or by W.")
        if self.timezone is not None:
            check_timezone(self.timezone)
        if self.holidays:
            from rearview.data.holidays import check_regions

            check_regions(self.holidays)
        if self.together and self.row_by_row:
            raise SettingsError(
                "together aligns rows by their stamps, which row_by_row leaves alone; choose one of the two."
            )

    def override(self, others: "ReadOptions") -> "ReadOptions":
        """These options, with those of `others` that differ from their default."""
        changed = {each.name: value for each in fields(self) if (value := getattr(others, each.name)) != each.default}
        return replace(self, **changed)

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Option -> what it means, for help texts."""
        return {name: hint.__metadata__[0] for name, hint in get_type_hints(cls, include_extras=True).items()}

    def to_json(self) -> dict[str, Any]:
        """The options that differ from their default, as JSON holds them; `of` takes them back."""
        changed = {
            option.name: value for option in fields(self) if (value := getattr(self, option.name)) != option.default
        }
        return {
            name: str(value) if isinstance(value, Step) else list(value) if isinstance(value, tuple) else value
            for name, value in changed.items()
        }


def check_timezone(name: str) -> None:
    """Refuse a time zone that does not exist."""
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = did_you_mean(name, sorted(zoneinfo.available_timezones()))
        raise SettingsError(f"timezone is {name!r}, which is no time zone, such as Europe/Berlin.{near}") from None


def names_in(names: Names) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def check_fill(fill: str) -> None:
    """Refuse an unknown way of filling missing cells."""
    if fill not in FILLS:
        raise SettingsError(
            f"fill has no method {fill!r}.{did_you_mean(fill, FILLS)} The methods are {', '.join(FILLS)}."
        )
