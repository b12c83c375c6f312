"""Numbers and words as a person reads them, as plain text."""

import math
from collections.abc import Sequence

ABSENT = "–"


def number(value: float) -> str:
    """Four significant digits, with thousands apart; a dash for what is not finite."""
    return column([value])[0]


def column(values: Sequence[float]) -> list[str]:
    """Numbers that stand below one another: as many decimals as the smallest of them needs for four digits."""
    sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
    if not sizes:
        return [_format_fixed(value, 0) for value in values]
    smallest, largest = min(sizes), max(sizes)
    if largest >= 1e9 or largest < 1e-4 or largest / smallest > 1e5:
        return [f"{value:.3e}" if math.isfinite(value) else ABSENT for value in values]
    decimals = max(0, 3 - math.floor(math.log10(smallest)))
    return [_format_fixed(value, min(decimals, 6)) for value in values]


def percent(share: float) -> str:
    """A share from 0 to 1 in percent."""
    if not math.isfinite(share):
        return ABSENT
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{100 * share:.1f} %"


def change(percent: float, decimals: int = 1) -> str:
    """A change in percent with its sign; what rounds to nothing has none."""
    rounded = round(percent, decimals)
    return f"{rounded:+.{decimals}f} %".replace("-", "−") if rounded else f"{0:.{decimals}f} %"


def points(difference: float, decimals: int = 1) -> str:
    """A difference of shares in points of a hundred, with its sign; what rounds to nothing has none."""
    rounded = round(difference, decimals)
    number = f"{rounded:+.{decimals}f}".replace("-", "−") if rounded else f"{0:.{decimals}f}"
    return f"{number} points"


def duration(seconds: float) -> str:
    """Seconds in the two largest units that matter."""
    if round(seconds) < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def memory(size: float) -> str:
    """Bytes in the unit that keeps the figure short."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def setting(value: object) -> str:
    """The value of a setting, without Python's quotes and brackets."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(setting(each) for each in value) or "none"
    return str(value)


def _format_fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if math.isfinite(value) else ABSENT
