"""Whether a panel has rows and values enough for what is asked of it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.wording import listing, plural, quantity
from rearview.data.holidays import is_holiday
from rearview.data.infer.timestamps import show
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.panel import Finding, Panel

_NAMED = 5


class TooShort(InputError):
    """A panel in which no series is long enough."""


def check_length(panel: Panel, lookback: int, horizon: int) -> None:
    """Refuse a panel in which no series has lookback + horizon rows; the message names lengths and what is needed."""
    needed = lookback + horizon
    if panel.series and panel.lengths.max() >= needed:
        return
    where, named = " is not", f"there are {int(panel.lengths.max(initial=0))}"
    if panel.layout.named_series:
        longest = np.argsort(-panel.lengths, kind="stable")[:_NAMED]
        where, named = ": no series is", ", ".join(f"{panel.ids[s]!r} has {panel.lengths[s]}" for s in longest)
    more = f" and {panel.series - _NAMED} more are no longer" if panel.series > _NAMED else ""
    raise TooShort(
        f"{panel.layout.source}{where} long enough: lookback {lookback} + horizon {horizon} need {needed} rows, "
        f"but {named}{more}; shorten lookback or horizon, or bring more history."
    )


def drop_empty_targets(panel: Panel, *, named: bool = False) -> Panel:
    """The panel without the series of a long table, or the columns of a wide one, that have no value.

    A finding names them. Refused where none has a value, and where the columns of a wide table were asked for by name
    (`named`; see `check_targets`).
    """
    empty = _empty_targets(panel)
    wide = panel.layout.form == "wide"
    if (wide and named) or len(empty) in (0, len(_target_variables(panel))):
        check_targets(panel)
        return panel
    has, it_is = plural(len(empty), "has", "have"), plural(len(empty), "it is", "they are")
    noun = plural(len(empty), "Column", "Columns") if wide else "Series"
    message = f"{noun} {listing(empty)} {has} no value in any row: {it_is} left out and {has} no forecast."
    # Reading said that such columns are kept as constants; of what is left nothing is empty.
    findings = [one for one in panel.findings if (one.kind, one.what) != ("warning", "empty")]
    findings.append(Finding("warning", "empty", len(empty), message))
    targets, known = panel.targets - len(empty), panel.known
    if panel.layout.named_series:
        rest, targets = panel.only(set(panel.ids) - set(empty)), panel.targets
    elif wide:
        rest = panel.select([c for c, name in enumerate(panel.columns) if name not in empty])
    else:
        # Of series taken together each has a column of every kind.
        shared = sum(map(is_holiday, panel.known_names))
        own = len(panel.columns) - shared
        kept = [c for c in range(own) if panel.target_names[c % panel.targets] not in empty]
        rest = panel.select([*kept, *range(own, len(panel.columns))])
        known = (panel.known - shared) // panel.targets * targets + shared
    return replace(rest, targets=targets, known=known, findings=tuple(findings))


def note_ends(panel: Panel) -> Panel:
    """The panel with findings on series that end before others, or without values, and where their forecasts begin."""
    return _note_empty_ends(_note_early_ends(panel))


def _note_early_ends(panel: Panel) -> Panel:
    """The panel with a finding on series of a long table that end before others: their forecasts begin there."""
    ends = panel.stamps[panel.offsets[1:] - 1]
    early = np.flatnonzero(ends < ends.max())
    if not panel.layout.named_series or not len(early):
        return panel
    first = int(early[ends[early].argmin()])
    begun, latest = (show(stamp) for stamp in to_wall_time(np.array([ends[first], ends.max()]), panel.layout))
    if len(early) == 1:
        message = f"Series {panel.ids[first]!r} ends at {begun}, others at {latest}; its forecast begins after {begun}."
    else:
        message = (
            f"{len(early):,} of {panel.series:,} series end before {latest}, the first of them ({panel.ids[first]!r}) "
            f"at {begun}; the forecast of each begins after its own last row."
        )
    finding = Finding("warning", "early ends", len(early), message)
    return replace(panel, findings=(*panel.findings, finding))


def _note_empty_ends(panel: Panel) -> Panel:
    """The panel with a finding on variables whose last rows have no value: what follows these rows is forecast."""
    if panel.observed is None:
        return panel
    ends = [panel.observed[a:b, : panel.targets][::-1] for a, b in panel.bounds()]
    empty = np.stack([np.where(end.any(axis=0), end.argmax(axis=0), 0) for end in ends])
    if not empty.any():
        return panel
    first, target = (int(one[0]) for one in np.nonzero(empty))
    rows, last = int(empty[first, target]), int(panel.offsets[first + 1]) - 1
    names = _target_variables(panel)
    of = (
        f" of {'series ' if panel.layout.named_series else ''}{names[first if panel.layout.named_series else target]!r}"
    )
    valued, end = (show(one) for one in to_wall_time(panel.stamps[[last - rows, last]], panel.layout))
    count, noun = int((empty > 0).any(axis=1 if panel.layout.named_series else 0).sum()), "columns"
    noun = "series" if panel.layout.named_series else noun
    others = "" if count == 1 else f" ({count:,} of {len(names):,} {noun} end so)"
    known = ", or give them as future (--future) if they say what is known ahead" if panel.known else ""
    message = (
        f"The last {quantity(rows, 'row')}{of} after {valued} {plural(rows, 'has', 'have')} no value{others}: the "
        f"forecast begins after {end}. Leave them out to have it begin after {valued}{known}."
    )
    return replace(panel, findings=(*panel.findings, Finding("warning", "empty ends", int(empty.sum()), message)))


def check_targets(panel: Panel) -> None:
    """Refuse targets without any value, of which a forecast would be made up; the message names them and a remedy."""
    empty = _empty_targets(panel)
    if not empty:
        return
    count, whole = len(empty), len(empty) == len(_target_variables(panel))
    if panel.layout.form == "long":
        noun = "series"
        remedy = "bring rows with values." if whole else f"leave {plural(count, 'its', 'their')} rows out."
    else:
        noun = plural(count, "column", "columns")
        remedy = "bring rows with values, or name another column with target (--target)."
        if not whole:
            remedy = (
                f"leave {plural(count, 'it', 'them')} out with drop (--drop {','.join(empty)}), or name what to "
                "forecast with target (--target)."
            )
    raise InputError(
        f"{panel.layout.source}: {noun} {listing(empty)} {plural(count, 'has', 'have')} no value in any row, so there "
        f"is nothing to forecast; {remedy}"
    )


def check_years(stamps: NDArray[np.generic], source: str) -> None:
    """Refuse moments that a calendar of the years 1 to 9999 has no name for, of rows or of their forecast."""
    if stamps.dtype.kind != "M" or not stamps.size:
        return
    first, last = stamps.min(), stamps.max()
    if first < np.datetime64("0001-01-01", "us") or last > np.datetime64("9999-12-31T23:59:59", "us"):
        year = str((first if first < np.datetime64("0001-01-01", "us") else last).astype("datetime64[Y]"))
        raise InputError(
            f"{source} has stamps, or would have forecasts, in the year {year}; the calendar goes from 0001 to 9999: "
            "mend the stamps, or forecast fewer steps."
        )


def _target_variables(panel: Panel) -> tuple[str, ...]:
    """The names of what has values to forecast: the series of a long table, or the targets of one series."""
    return panel.ids if panel.layout.named_series else panel.target_names


def _empty_targets(panel: Panel) -> list[str]:
    """Those of them that have none."""
    unseen = panel.first[:, : panel.targets] >= panel.offsets[1:, None]
    nothing = np.flatnonzero(unseen.all(axis=1 if panel.layout.named_series else 0))
    return [_target_variables(panel)[place] for place in nothing.tolist()]
