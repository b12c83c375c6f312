"""The pages become a site in which every link leads somewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS

pytest.importorskip("mkdocs", reason="the site needs mkdocs-material, which the extra 'docs' brings")
ROOT = DOCS.parent
PARTS = (
    "mkdocs.yml",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "results/README.md",
)


def build(root: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        "mkdocs.yml",
        "--site-dir",
        str(site),
    ]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


@pytest.mark.slow
def test_the_site_builds_and_a_broken_link_ends_the_build(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in ("index", "guide/index", "notebooks/forecast/index", "speed/index"):
        assert (tmp_path / "site" / f"{page}.html").is_file()
    start = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="guide/"' in start
    copy = tmp_path / "copy"
    for part in PARTS:
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, copy / part)
    with (copy / "docs" / "guide.md").open("a", encoding="utf-8") as page:
        page.write("\n[Nothing](nowhere.md), [no such part](guide.md#no-such-part)\n")
    broken = build(copy, tmp_path / "other")
    assert broken.returncode != 0
    assert "nowhere.md" in broken.stderr
    assert "no-such-part" in broken.stderr


def test_every_page_is_in_the_menu() -> None:
    import yaml

    menu = set(
        re.findall(r"[\w/-]+\.md", str(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    )
    pages = {page.name for page in DOCS.glob("*.md")} | {f"notebooks/{book.stem}.md" for book in DOCS.glob("*/*.ipynb")}
    assert len(pages) >= 9
    assert pages <= menu
