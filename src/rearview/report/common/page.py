"""The page: shell, style, scripts and data put into one HTML file that asks nothing of the network.

A content security policy in the page names the hash of each script, so that a browser runs these scripts alone and
fetches nothing, whatever a series is called.
"""

import base64
import hashlib
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from rearview.core.files import write_atomically
from rearview.report.common import payload, sections
from rearview.report.common.summary import Facts, Summary

SCRIPTS = (
    "figures.js",
    "plots.js",
    "choice.js",
    "charts.js",
    "looks.js",
    "values.js",
    "picker.js",
    "copy.js",
    "report.js",
)


def write(path: Path, summary: Summary) -> Path:
    """Writes the page to `path` (folders are made as needed) and returns it; no half-written page can be seen."""
    return put(path, render(summary))


def put(path: Path, page: str) -> Path:
    """Writes a rendered page, whole or not at all."""
    write_atomically(path, page.encode("utf-8", errors="xmlcharrefreplace"))
    return path


def render(summary: Summary) -> str:
    """The page as text; the same summary gives the same page."""
    data, left_off = payload.encode(summary)
    body = filled(
        "forecast.html",
        noun="Column" if summary.is_wide else "Series",
        scores=sections.score_table(summary),
        training=sections.training(summary),
        no_backtest=hidden(not any(view.backtest for view in summary.series)),
        no_errors=hidden(not summary.error_by_step),
        no_training=hidden(not summary.curves),
        no_looks=hidden(not summary.looks),
    )
    return shell(
        summary,
        headline=sections.headline(summary),
        body=body,
        notes=(*summary.notes, *left_off),
        data=data,
        scripts=SCRIPTS,
        skip="forecast",
    )


def shell(
    facts: Facts, *, headline: str, body: str, notes: tuple[str, ...], data: str, scripts: tuple[str, ...], skip: str
) -> str:
    """What pages of every kind share, around the body of one: headline, data, settings, notes, the command."""
    from plotly.offline import get_plotlyjs

    plotly = _inlined(get_plotlyjs())
    script = _inlined("\n".join(_part(name) for name in scripts))
    return filled(
        "shell.html",
        title=escape(facts.title),
        verdict=sections.said(facts.verdict),
        version=escape(facts.version),
        created=escape(facts.created),
        device=escape(facts.device),
        command=escape(facts.command),
        policy=_policy(plotly, script),
        style=_part("report.css"),
        headline=headline,
        body=body,
        facts=sections.data_facts(facts),
        findings=sections.findings(facts),
        settings=sections.settings(facts),
        notes=sections.notes(notes),
        no_settings=hidden(not facts.settings),
        data=data,
        plotly=plotly,
        script=script,
        skip=skip,
    )


def filled(template: str, **parts: str) -> str:
    """A template of this folder with its places filled."""
    return Template(_part(template)).substitute(parts)


def hidden(absent: bool) -> str:
    """The attribute of a section that has nothing to show."""
    return " hidden" if absent else ""


def _part(name: str) -> str:
    return resources.files("rearview.report").joinpath(name).read_text(encoding="utf-8")


def _inlined(script: str) -> str:
    """A script as the HTML parser will hand it on: nothing in it ends the element, and line ends are plain."""
    return script.replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def _policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(each.encode("utf-8")).digest()).decode("ascii") for each in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"
