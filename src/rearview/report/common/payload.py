"""The data of a page as one compact JSON text that is safe inside a script element.

Numbers keep six significant digits. Stamps that many series share are stored once, regular ones as start, step and
count.
"""

import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.report.common.summary import Curve, Stamps, Values

DIGITS = 6


def dump(data: object) -> str:
    """JSON in which nothing can end the script element: <, > and & occur in strings alone and are escaped there."""
    words = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for mark in "<>&":
        words = words.replace(mark, f"\\u{ord(mark):04x}")
    return words


def round_digits(values: Values, digits: int = DIGITS) -> list[float | int | None]:
    """The values to so many significant digits; None for what is not finite."""
    exact = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(exact)
    magnitude = np.abs(np.where(finite & (exact != 0), exact, 1.0))
    places = digits - 1 - np.floor(np.log10(magnitude))
    # A whole number over (or times) an exact power of ten is what Python prints shortest; 10**22 is the last exact one.
    up, down = 10.0 ** np.clip(places, 0, 22), 10.0 ** np.clip(-places, 0, 22)
    short = np.where(np.abs(places) <= 22, np.rint(exact * up / down) / up * down, exact)
    if finite.all() and np.all(short == np.rint(short)) and np.all(np.abs(short) < 2**53):
        return [int(value) for value in short.tolist()]
    return [value if known else None for value, known in zip(short.tolist(), finite.tolist(), strict=True)]


def encode_curves(curves: Mapping[str, Curve]) -> dict[str, object]:
    """Losses by epoch."""
    return {
        model: {
            "train": round_digits(curve.train),
            "validation": round_digits(curve.validation),
            "best": curve.best_epoch,
        }
        for model, curve in curves.items()
    }


def stamp_numbers(stamps: Stamps) -> NDArray[np.int64]:
    """Milliseconds since 1970, or the integers themselves."""
    if stamps.dtype.kind != "M":
        return stamps.astype(np.int64)
    if np.isnat(stamps).any():
        raise InputError("A report can't place a row without a stamp, but a series has a missing one; drop that row.")
    return stamps.astype("datetime64[ms]").astype(np.int64)


class StampAxes:
    """Arrays of stamps, each stored once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self._places: dict[bytes, int] = {}

    def add(self, stamps: Stamps) -> int:
        """The place of these stamps in `rows`."""
        numbers = stamp_numbers(stamps)
        key = numbers.tobytes()
        if key not in self._places:
            self._places[key] = len(self.rows)
            steps = np.unique(np.diff(numbers)).tolist()
            self.rows.append(
                {"start": int(numbers[0]), "step": steps[0], "count": len(numbers)}
                if len(steps) == 1
                else {"at": numbers.tolist()}
            )
        return self._places[key]
