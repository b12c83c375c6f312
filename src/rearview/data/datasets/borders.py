"""Borders of training, validation and test in the published benchmarks, row for row.

Every rule gives three ranges of rows. The ranges of validation and test include the rows before them that lend
context: their first window looks back over the `lookback` rows before its own first row, so no target row is lost.
PEMS is the exception: its parts lend nothing to one another, and the first `lookback` rows of each go unscored.

| rule               | train         | validation       | test                | used by                              |
|--------------------|---------------|------------------|---------------------|--------------------------------------|
| ett_hourly         | 12 months     | 4 months         | 4 months            | ETTh1, ETTh2; months of 30 days,     |
| ett_quarter_hourly | 12 months     | 4 months         | 4 months            | ETTm1, ETTm2; later rows stay unused |
| custom             | int(0.7 rows) | the remainder    | last int(0.2 rows)  | Weather, Electricity, Traffic, ...   |
| solar              | int(0.7 rows) | int(0.1 rows)    | last int(0.2 rows)  | Solar; up to two rows may go unused  |
| pems               | int(0.6 rows) | to int(0.8 rows) | the rest            | PEMS03, PEMS04, PEMS07, PEMS08       |
| tenths             | the rest      | int(0.1 rows)    | last int(0.1 rows)  | MICA's Simglucose and Iowa           |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rearview.core.errors import SettingsError, did_you_mean

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Borders:
    """Row ranges, first row and row after the last, with the context rows of validation and test included."""

    train: Range
    validation: Range
    test: Range


Rule = Callable[[int, int], Borders]
"""From (rows, lookback) to borders."""


def by_rule(rule: str | Rule, rows: int, lookback: int) -> Borders:
    """The borders that a rule (a name out of `RULES`, or a function) draws in a series of `rows` rows."""
    if isinstance(rule, str):
        if rule not in RULES:
            raise SettingsError(
                f"there is no border rule {rule!r}; known: {', '.join(RULES)}.{did_you_mean(rule, list(RULES))}"
            )
        rule = RULES[rule]
    if lookback < 1:
        raise SettingsError(f"lookback is {lookback}, but a window looks back over at least 1 row.")
    borders = rule(rows, lookback)
    for part in ("train", "validation", "test"):
        first, last = getattr(borders, part)
        if first < 0 or last - first <= lookback:
            raise SettingsError(
                f"A lookback of {lookback:,} leaves no target row in the {part} part (rows {max(first, 0):,} to "
                f"{last:,} of {rows:,}); use a shorter lookback or a longer series."
            )
    return borders


def _with_context(train_end: int, validation_end: int, test_start: int, test_end: int, lookback: int) -> Borders:
    """Borders whose validation and test borrow their context from the rows before them."""
    return Borders((0, train_end), (train_end - lookback, validation_end), (test_start - lookback, test_end))


def _ett(rows_per_hour: int) -> Rule:
    month = 30 * 24 * rows_per_hour

    def rule(rows: int, lookback: int) -> Borders:
        if rows < 20 * month:
            raise SettingsError(f"The ETT borders need 20 months ({20 * month:,} rows), but the series has {rows:,}.")
        return _with_context(12 * month, 16 * month, 16 * month, 20 * month, lookback)

    return rule


def _custom(rows: int, lookback: int) -> Borders:
    test_start = rows - int(rows * 0.2)
    return _with_context(int(rows * 0.7), test_start, test_start, rows, lookback)


def _solar(rows: int, lookback: int) -> Borders:
    train_end = int(rows * 0.7)
    return _with_context(train_end, train_end + int(rows * 0.1), rows - int(rows * 0.2), rows, lookback)


def _pems(rows: int, lookback: int) -> Borders:
    train_end, validation_end = int(rows * 0.6), int(rows * 0.8)
    return Borders((0, train_end), (train_end, validation_end), (validation_end, rows))


def _tenths(rows: int, lookback: int) -> Borders:
    tenth = int(rows * 0.1)
    return _with_context(rows - 2 * tenth, rows - tenth, rows - tenth, rows, lookback)


def gift_short(horizon: int) -> Rule:
    """GIFT-Eval's short setting: a tenth of the rows, 1 to 20 windows of a horizon, is test; one horizon validation."""
    return partial(_gift_short, horizon)


def _gift_short(horizon: int, rows: int, lookback: int) -> Borders:
    windows = min(max(1, math.ceil(rows / 10 / horizon)), 20)
    test_start = rows - windows * horizon
    return _with_context(test_start - horizon, test_start, test_start, rows, lookback)


RULES: dict[str, Rule] = {
    "ett_hourly": _ett(rows_per_hour=1),
    "ett_quarter_hourly": _ett(rows_per_hour=4),
    "custom": _custom,
    "solar": _solar,
    "pems": _pems,
    "tenths": _tenths,
}

_WORDS = {
    "ett_hourly": "12 months of 30 days train, 4 select and 4 test; later rows stay unused",
    "ett_quarter_hourly": "12 months of 30 days train, 4 select and 4 test; later rows stay unused",
    "custom": "the first 70 % of the rows train, the last 20 % test, the remainder selects",
    "solar": "the first 70 % of the rows train, 10 % select, the last 20 % test",
    "pems": "the first 60 % of the rows train, 20 % select, 20 % test; no part looks back into the one before",
    "tenths": "the last tenth of the rows tests, the one before selects, the rest trains",
}


def describe(rule: str | Rule) -> str:
    """A border rule in words."""
    if isinstance(rule, str):
        return f"{rule}: {_WORDS[rule]}" if rule in _WORDS else rule
    if isinstance(rule, partial) and rule.func is _gift_short:
        (horizon,) = rule.args
        return (
            f"GIFT-Eval's short setting: the last tenth of the rows in whole horizons of {horizon}, 20 at most, tests, "
            "the horizon before selects, the rest trains"
        )
    return "a rule of its own"
