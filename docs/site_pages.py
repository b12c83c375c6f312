"""Hooks of the site's build: pages that lie outside docs/, notebooks as pages, and links that fit either place."""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "benchmarks/README.md": "speed.md",
    "results/README.md": "results.md",
}
"""A file of the repository -> its page."""
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere, and a page for each notebook."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for book in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{book.stem}.md", content=to_markdown(book)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links between files of the repository lead to their pages."""
    here = page.file.src_uri
    folder = posixpath.dirname(next((source for source, name in PAGES.items() if name == here), f"docs/{here}"))

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        place = PAGES.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{link[2] or ''})"

    return _LINK.sub(lead, markdown)


def to_markdown(book: Path) -> str:
    """A notebook as a page: its text, its code, and a link to itself."""
    parts = []
    for cell in json.loads(book.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    return "\n\n".join([*parts, f"[This notebook]({book.name})", ""])
