"""The page: template, style, scripts and data put into one HTML file that asks nothing of the network.

A content security policy in the page names the hash of each script, so that a browser runs these scripts alone and
fetches nothing, whatever a series is called.
"""

import base64
import hashlib
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from rearview.files import write_atomically
from rearview.report import payload, sections
from rearview.report.summary import Summary

SCRIPTS = ("figures.js", "choice.js", "charts.js", "values.js", "picker.js", "report.js")


def write(path: Path, summary: Summary) -> Path:
    """Writes the page to `path` (folders are made as needed) and returns it; no half-written page can be seen."""
    content = render(summary).encode("utf-8", errors="xmlcharrefreplace")
    write_atomically(path, content)
    return path


def render(summary: Summary) -> str:
    """The page as text; the same summary gives the same page."""
    from plotly.offline import get_plotlyjs

    data, left_off = payload.encode(summary)
    plotly = _inlined(get_plotlyjs())
    script = _inlined("\n".join(_part(name) for name in SCRIPTS))
    return Template(_part("page.html")).substitute(
        title=escape(summary.title),
        verdict=escape(summary.verdict),
        version=escape(summary.version),
        created=escape(summary.created),
        device=escape(summary.device),
        noun="Column" if summary.is_wide else "Series",
        command=escape(summary.command),
        policy=_policy(plotly, script),
        style=_part("report.css"),
        headline=sections.headline(summary),
        scores=sections.score_table(summary),
        training=sections.training(summary),
        facts=sections.data_facts(summary),
        findings=sections.findings(summary),
        settings=sections.settings(summary),
        notes=sections.notes((*summary.notes, *left_off)),
        no_backtest=_hidden(not any(view.backtest for view in summary.series)),
        no_errors=_hidden(not summary.error_by_step),
        no_training=_hidden(not summary.curves),
        no_settings=_hidden(not summary.settings),
        data=data,
        plotly=plotly,
        script=script,
    )


def _part(name: str) -> str:
    return resources.files("rearview.report").joinpath(name).read_text(encoding="utf-8")


def _inlined(script: str) -> str:
    """A script as the HTML parser will hand it on: nothing in it ends the element, and line ends are plain."""
    return script.replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def _policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(each.encode("utf-8")).digest()).decode("ascii") for each in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"


def _hidden(absent: bool) -> str:
    return " hidden" if absent else ""
