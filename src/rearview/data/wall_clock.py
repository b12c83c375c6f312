"""The rows of a time zone as its clock on the wall shows them, by which people live.

Stamps are counted in UTC, where a day of people begins an hour earlier or later once clocks are changed. By the clock a
day has the same steps all year: those that it skips in spring are missing rows, and of those that it repeats in autumn
the later ones stand. What goes by the sun keeps to UTC: the rows around past changes tell which it is.
"""

from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from rearview.core.wording import quantity
from rearview.data.infer.wall_time import clock_changes, offset_name, offsets_at, zone_of
from rearview.data.panel import Clock, Finding, Panel
from rearview.data.step import MICROSECONDS, Stamps

WEEK = 7
"""Days after a change that are compared with those of the week before, at most."""
MOST_JUDGED = 200
"""Series, and columns, that are compared."""
_MOST_REPEATED = 4 * MICROSECONDS["h"]
"""Longer than what changes of clocks take away from the rows of a series, and the cut at its end."""

_MINUTE = np.timedelta64(1, "m")

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


def follow_clock(panel: Panel, horizon: int) -> Panel:
    """The panel with the clock that its models read it by, where its stamps have a zone in which clocks are changed.

    A finding says by which time they go where clocks are changed among the rows or the steps ahead.
    """
    zone = panel.layout.timezone
    if zone is None or panel.layout.stored != "utc" or not panel.step.sub_daily:
        return panel
    first, last = panel.stamps.min(), panel.stamps.max()
    minutes, rest = divmod(int(offsets_at(np.array([last]), zone)[0] / np.timedelta64(1, "s")), 60)
    if not isinstance(zone_of(zone), ZoneInfo) or rest:
        return panel
    followed = replace(panel, clock=Clock(zone, offset_name(minutes)))
    ahead = panel.ahead(panel.offsets[1:] - 1, horizon)
    changes = clock_changes(first, ahead.max(), zone)
    if not len(changes) or on_clock(followed, ahead) is followed:
        return followed
    by_sun = _goes_by_sun(panel, changes[changes <= last])
    how = (
        "the values go by the sun all the same, and models read them in UTC."
        if by_sun
        else "models read the rows by the clock on the wall, where an hour that it skips is missing and of one that it "
        "repeats the second pass stands. Give stamps in UTC if the values go by the sun."
    )
    message = (
        f"Clocks in {zone} are changed {quantity(len(changes), 'time')} from the first row to the last step: {how}"
    )
    finding = Finding("inferred", "clock", len(changes), message)
    return replace(panel if by_sun else followed, findings=(*panel.findings, finding))


def spare_rows(panel: Panel) -> int:
    """Rows more than a model reads that must be there, since some are not laid out."""
    if panel.clock is None:
        return 0
    return -(-_MOST_REPEATED // (panel.step.count * MICROSECONDS[panel.step.unit]))


def clock_times(stamps: Stamps, clock: Clock) -> Stamps:
    """Moments of UTC as a clock shows them, on the stamps of `on_clock`."""
    return np.asarray(stamps + offsets_at(stamps, clock.zone) - np.timedelta64(zone_of(clock.offset).utcoffset(None)))


def on_clock(panel: Panel, ahead: Stamps | None = None) -> Panel:
    """The rows as the panel's clock shows them, up to the first step ahead; the panel itself where they can't be.

    `ahead` [series, step] are stamps that follow. Rows that the clock shows again, among them or among later rows, are
    left out. A step that does not go into the change of clocks whole has no place on it.
    """
    if panel.clock is None:
        return panel
    step, first = panel.step, panel.offsets[:-1]
    times = clock_times(panel.stamps, panel.clock)
    place = step.distance(times[0], times)
    series = np.repeat(np.arange(panel.series), panel.lengths)
    if not step.on_grid(times[first][series], times).all():
        return panel
    later = np.full(panel.series, place.max() + 1)
    if ahead is not None:
        steps = clock_times(ahead, panel.clock)
        if not step.on_grid(times[first][:, None], steps).all():
            return panel
        later = step.distance(times[0], steps).min(axis=1)
    # The least place of all rows that follow in the series, and of the steps ahead.
    span = int(max(place.max(), later.max()) - min(place.min(), later.min())) + 1
    far = place + span * series
    following = np.append(np.minimum.accumulate(far[::-1])[::-1][1:], far.max() + span)
    kept = np.flatnonzero((far < following) & (place < later[series]))
    counts = np.bincount(series[kept], minlength=panel.series)
    if not counts.all():
        return panel
    begins = np.concatenate([[0], np.cumsum(counts)])
    within = place[kept] - np.repeat(place[kept][begins[:-1]], counts)
    offsets = np.concatenate([[0], np.cumsum(within[begins[1:] - 1] + 1)]).astype(np.int64)
    source = np.full(offsets[-1], -1)
    source[np.repeat(offsets[:-1], counts) + within] = kept
    length = np.diff(offsets)
    number = np.arange(offsets[-1]) - np.repeat(offsets[:-1], length)
    stamps = step.shift(np.repeat(times[kept[begins[:-1]]], length), number)
    laid_out = lay_out(panel, source, offsets, stamps)
    return replace(laid_out, layout=replace(panel.layout, timezone=panel.clock.offset), clock=None)


def lay_out(panel: Panel, source: Rows, offsets: Rows, stamps: Stamps) -> Panel:
    """The rows of a panel at other places: `source` [row] has the row of each, -1 for one that is missing.

    A missing row holds the values before it; a series begins with a row of its own.
    """
    if np.array_equal(source, np.arange(len(panel.values))):
        return replace(panel, stamps=stamps)
    missing = source < 0
    rows = source[np.maximum.accumulate(np.where(missing, 0, np.arange(len(source))))]
    observed = panel.observed
    if missing.any():
        there = np.ones((len(rows), len(panel.columns)), dtype=bool) if observed is None else observed[rows]
        observed = there & ~missing[:, None]
    elif observed is not None:
        observed = observed[rows]
    ends = offsets[1:, None]
    first = np.minimum(np.searchsorted(rows, panel.first), ends)
    # A series without any value has its first one after its end, wherever that is now.
    first = np.where(panel.first >= panel.offsets[1:, None], ends, first)
    return replace(panel, values=panel.values[rows], observed=observed, offsets=offsets, first=first, stamps=stamps)


def _goes_by_sun(panel: Panel, changes: Stamps) -> bool:
    """Whether days after changes of clocks are more like those before them by UTC than by the clock.

    Of each variable the mean of the days after a change is compared with that of the same days of the week before.
    """
    assert panel.layout.timezone is not None
    length = panel.step.count * MICROSECONDS[panel.step.unit]
    a_day, rest = divmod(MICROSECONDS["D"], length)
    if rest:
        return False
    sides = (offsets_at(changes + side, panel.layout.timezone) for side in (_MINUTE, -_MINUTE))
    shifts = np.subtract(*sides).astype(np.int64) // length
    votes = 0.0
    columns = range(0, panel.targets, -(-panel.targets // MOST_JUDGED))
    for s in range(0, panel.series, -(-panel.series // MOST_JUDGED)):
        a, b = panel.span(s)
        for at, shift in zip((a + np.searchsorted(panel.stamps[a:b], changes)).tolist(), shifts.tolist(), strict=True):
            rows = min(WEEK * a_day, b - at)
            if 2 * rows < a_day or at - WEEK * a_day < a or a_day % shift:
                continue
            past, days = at - WEEK * a_day, -(-rows // a_day)
            parts = slice(past, past + days * a_day), slice(at, at + rows)
            before, after = (_mean_day(panel.original(part, s)[:, columns], a_day, abs(shift)) for part in parts)
            by_sun, by_clock = (_unlikeness(after, before, moved) for moved in (0, -int(np.sign(shift))))
            judged = by_sun + by_clock > 0
            votes += float(((by_sun - by_clock)[judged] / (by_sun + by_clock)[judged]).sum())
    return votes < 0


def _mean_day(cells: Floats, a_day: int, width: int) -> Floats:
    """[part, column]: the mean of rows [row, column] in each part of a day, which has `width` steps; NaN: none."""
    days = -(-len(cells) // a_day)
    whole = np.full((days * a_day, cells.shape[1]), np.nan)
    whole[: len(cells)] = cells
    parts = whole.reshape(days, a_day // width, width, -1)
    count = np.isfinite(parts).sum(axis=(0, 2))
    return np.where(count > 0, np.nansum(parts, axis=(0, 2)) / np.maximum(count, 1), np.nan)


def _unlikeness(after: Floats, before: Floats, moved: int) -> Floats:
    """[column]: how much two mean days rise and fall otherwise, the earlier one moved by some of its parts.

    Over two parts at a time: their levels drift with the weather, and from one part to the next there is mostly noise.
    """
    apart = after - np.roll(before, moved, axis=0)
    return np.asarray(np.nansum(np.square(apart - np.roll(apart, 2, axis=0)), axis=0))
