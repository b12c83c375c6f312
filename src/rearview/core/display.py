"""HTML for notebooks: tables of escaped text, in the notebook's own style."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(rows: Iterable[Sequence[object]], heads: Sequence[str] = (), title: str = "") -> str:
    """A table whose first column names its rows; whatever is in a cell is text, numbers have four digits."""
    head = "".join(f"<th style='text-align:left'>{escape(str(name))}</th>" for name in heads)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(str(first))}</th>"
        + "".join(
            f"<td style='text-align:left'>{escape(f'{cell:.4g}' if isinstance(cell, float) else str(cell))}</td>"
            for cell in rest
        )
        + "</tr>"
        for first, *rest in rows
    )
    caption = f"<caption style='text-align:left'>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def html_fold(title: str, content: str, *, is_open: bool = False) -> str:
    """HTML below a title that folds it away."""
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{content}</details>"
