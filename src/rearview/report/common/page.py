"""The page: shell, style, scripts and data in one HTML file that needs no network. All text from the data is escaped.

A content security policy in the page names the hash of each script, so that a browser runs these scripts alone and
fetches nothing, whatever a series is called.
"""

import base64
import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from rearview.core.errors import InputError
from rearview.core.files import write_atomically
from rearview.core.wording import quantity
from rearview.data.panel import Finding, Kind
from rearview.report.common import payload, text
from rearview.report.common.summary import BUDGET, Content, Curve, Summary, Tile

KINDS: tuple[tuple[Kind, str], ...] = (("warning", "Warnings"), ("repaired", "Repaired"), ("inferred", "Inferred"))
ENDINGS = {
    "epochs": "all epochs were run",
    "patience": "stopped early, as validation no longer improved",
    "interrupted": "interrupted; the best weights so far were kept",
}
MOST_BYTES = 3_000_000
"""The size of a page that goes through a mail server."""
LEAST_BUDGET = 2_000
PLOTLY = "plotly-cartesian.min.js.gz"
"""The partial bundle of plotly.js 4.1.1 (lines, bars, maps), a third of the whole; its licence lies beside it."""
_GENERATOR, _HEAD_BYTES = b'<meta name="generator" content="rearview ', 4096
"""What every page has near its beginning."""
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def write(path: Path, summary: Summary) -> Path:
    """Write the page to `path`, whole or not at all, and return it; a file there that is no page is refused."""
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if _GENERATOR not in file.read(_HEAD_BYTES):
                raise InputError(f"{path} is no page of rearview and is not written over; name another place.")
    write_atomically(path, render(summary).encode("utf-8", errors="xmlcharrefreplace"))
    return path


def render(summary: Summary) -> str:
    """The page as text, within `MOST_BYTES` where leaving off can achieve that; the same summary, the same page."""
    budget = BUDGET
    while True:
        page = _render(summary, summary.content(budget))
        if len(page.encode("utf-8", errors="xmlcharrefreplace")) <= MOST_BYTES or budget < LEAST_BUDGET:
            return page
        budget = budget * 2 // 3


def _render(summary: Summary, content: Content) -> str:
    plotly = _inline(gzip.decompress(_asset_bytes(PLOTLY)).decode("utf-8")) if content.plotly else ""
    script = _inline("\n".join(_asset(name) for name in (*content.scripts, "tips.js")))
    digests = [base64.b64encode(hashlib.sha256(each.encode("utf-8")).digest()).decode() for each in (plotly, script)]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return fill(
        "shell.html",
        {
            "title": escape(summary.title),
            "verdict": _verdict(summary),
            "version": escape(summary.version),
            "created": escape(summary.created),
            "device": escape(summary.device),
            "command": escape(summary.command),
            "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
            "base-uri 'none'",
            "style": _asset("report.css"),
            "headline": content.lead + _headline(content.tiles),
            "body": fill(content.template, {"training": _training(summary.curves), **content.parts}),
            "facts": _facts(summary.data.facts),
            "findings": _findings(summary.findings),
            "settings": _settings(summary.settings),
            "notes": _notes((*summary.notes, *content.left_off)),
            "data": payload.dump(content.data),
            "plotly": plotly,
            "charts": " Charts by plotly.js, MIT licence." if plotly else "",
            "script": script,
            "skip": content.skip,
        },
    )


def fill(template: str, parts: Mapping[str, str | bool]) -> str:
    """A template of the assets with its places filled; True becomes the attribute that hides a section.

    So does `no_NAME` of a section whose part NAME is empty.
    """
    empty = {f"no_{name}": part == "" for name, part in parts.items()}
    every = {**empty, **parts}
    words = {name: part if isinstance(part, str) else " hidden" if part else "" for name, part in every.items()}
    return Template(_asset(template)).substitute(words)


def _asset_bytes(name: str) -> bytes:
    return resources.files("rearview.report").joinpath("assets", name).read_bytes()


def _asset(name: str) -> str:
    return _asset_bytes(name).decode("utf-8")


def _inline(script: str) -> str:
    """A script safe for inlining, in the form that the HTML parser passes on: no end tag, plain line ends."""
    return script.replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def _verdict(summary: Summary) -> str:
    """The outlook, where there is one, and the verdict."""
    # A number keeps its per cent sign on its line.
    lead, verdict = (_sentence(words).replace(" %", "&nbsp;%") for words in (summary.outlook, summary.verdict))
    if not summary.outlook:
        return f'<p class="verdict">{verdict}</p>'
    return f'<p class="verdict">{lead}</p>\n<p class="judgement">{verdict}</p>'


def _sentence(words: str) -> str:
    """A sentence, escaped; no line ends within a flag such as --model."""
    return _FLAG.sub(r'<span class="flag">\g<0></span>', escape(words))


def _headline(tiles: Iterable[Tile]) -> str:
    cells = (
        f"<div><dt>{escape(name)}</dt><dd><b>{escape(value)}</b> <span>{escape(note)}</span></dd></div>"
        for name, value, note in tiles
    )
    return f'<dl class="headline">{"".join(cells)}</dl>'


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    cells = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{"".join(cells)}</dl>'


def _training(curves: Mapping[str, Curve]) -> str:
    """One line for each trained model: epochs, best epoch, why it ended."""
    lines = []
    for model, curve in curves.items():
        best = f", best at epoch {curve.best_epoch}" if curve.best_epoch else ""
        words = f"{quantity(len(curve.train), 'epoch')}{best}; {ENDINGS.get(curve.ended, curve.ended)}."
        lines.append(f"<li><b>{escape(model)}</b>: {escape(words)}</li>")
    return f'<ul class="plain">{"".join(lines)}</ul>' if lines else ""


def _findings(findings: Iterable[Finding]) -> str:
    """Warnings about the data, then what was repaired and inferred."""
    items: dict[str, list[str]] = {kind: [] for kind, _ in KINDS}
    for one in findings:
        repeated = f"{one.count:,}" in one.message or str(one.count) in one.message
        count = f'<span class="count">{one.count:,}</span> ' if one.count and not repeated else ""
        what = f'<span class="what">{escape(one.what)}</span>'
        items[one.kind].append(f'<li class="{one.kind}">{what} {count}{_sentence(one.message)}</li>')
    parts = [f"<h3>{title}</h3><ul>{''.join(items[kind])}</ul>" for kind, title in KINDS if items[kind]]
    return "".join(parts) or '<p class="quiet">Nothing was inferred or repaired.</p>'


def _settings(sections: Mapping[str, Mapping[str, tuple[object, str]]]) -> str:
    """Every setting with its value and why it was chosen."""
    groups = []
    for section, settings in sections.items():
        rows = []
        for name, (value, reason) in settings.items():
            why = f'<dd class="why">{escape(reason)}</dd>' if reason else ""
            # A line may end after an underscore before it does so within a word.
            words = escape(name).replace("_", "_<wbr>")
            rows.append(f"<div><dt>{words}</dt><dd>{escape(text.setting(value))}</dd>{why}</div>")
        groups.append(f'<div class="group"><h3>{escape(section)}</h3><dl class="settings">{"".join(rows)}</dl></div>')
    return "".join(groups)


def _notes(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{_sentence(sentence)}</li>" for sentence in sentences)
    if not items:
        return ""
    return (
        f'<section id="notes" aria-labelledby="notes-title"><h2 id="notes-title">Notes</h2><ul>{items}</ul></section>'
    )
