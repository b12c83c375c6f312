"""Rules of the house that no single module can keep alone."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rearview"
GOLDEN = ROOT / "tests" / "golden"
LONGEST, MOST_MODULES = 700, 16


def files() -> list[Path]:
    """Every file that belongs to the project: tracked, or new and not ignored."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is not a git checkout, so nobody knows which files belong to the project")
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def modules() -> list[Path]:
    found = [path for path in files() if path.suffix == ".py"]
    assert len(found) > 20
    return found


def test_no_file_is_too_long_to_read_at_one_go():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert not {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > LONGEST}


def test_every_module_says_what_it_is_for():
    silent = [path for path in modules() if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert not [str(path.relative_to(ROOT)) for path in silent]


def test_no_module_turns_its_annotations_into_text():
    postponed = "from __future__ import " + "annotations"
    assert not [str(path.relative_to(ROOT)) for path in modules() if postponed in path.read_text(encoding="utf-8")]


def test_no_folder_is_too_full_to_find_anything_in():
    folders = Counter(path.parent for path in SOURCE.rglob("*.py"))
    assert not {str(folder.relative_to(SOURCE)): count for folder, count in folders.items() if count > MOST_MODULES}


def test_no_modules_import_each_other_even_inside_functions():
    """What is imported for types alone does not count."""
    places = {path.relative_to(SOURCE.parent).with_suffix(""): path for path in SOURCE.rglob("*.py")}
    paths = {".".join(place.parts).removesuffix(".__init__"): path for place, path in places.items()}
    graph = {name: imports(ast.parse(path.read_text(encoding="utf-8")), paths) - {name} for name, path in paths.items()}
    assert sum(map(len, graph.values())) > 1000
    TopologicalSorter(graph).prepare()  # a CycleError names the modules


def imports(node: ast.AST, paths: Collection[str]) -> set[str]:
    """The modules among `paths` that a part of a module imports, wherever it does so."""
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return set()
    if isinstance(node, ast.ImportFrom) and node.module:
        whole = {f"{node.module}.{name.name}" for name in node.names}
        return {name if name in paths else node.module for name in whole} & set(paths)
    if isinstance(node, ast.Import):
        return {name.name for name in node.names} & set(paths)
    return set().union(*(imports(child, paths) for child in ast.iter_child_nodes(node)))


def test_importing_rearview_is_light():
    program = "import sys, rearview; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert "rearview" in loaded
    assert not {"torch", "polars", "pandas", "pyarrow", "plotly", "scipy"} & set(loaded)


def test_no_file_names_a_place_on_somebodys_machine():
    place = re.compile(r"(?:^|[\s\"'`=(:,])(?:/(?:root|home|work|Users)/\w|[A-Z]:\\Users\\)", re.MULTILINE)
    named = {}
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if found := place.search(text):
            named[str(path.relative_to(ROOT))] = text[found.start() : found.start() + 60]
    assert not named


def golden_rows() -> dict[str, str]:
    table = (GOLDEN / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (\S+\.(?:npz|json|ts)) \|(.*)\|$", table, re.MULTILINE))


def test_every_golden_file_is_listed_with_its_source():
    held = {path.name for path in GOLDEN.iterdir() if path.name != "README.md"}
    assert {"time_features.npz", "protocol.npz"} <= held
    assert held <= set(golden_rows())


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.npz")))
def test_a_golden_file_comes_from_the_commits_listed(name):
    _, sources, commits = golden_rows()[name].split("|")
    config = str(np.load(GOLDEN / name, allow_pickle=False)["config"])
    listed = re.findall(r"\b[0-9a-f]{8}\b", commits)
    assert set(listed) == {commit[:8] for commit in re.findall(r"\b[0-9a-f]{40}\b", config)}
    for repository in re.findall(r"([\w-]+/[\w-]+):", sources):
        assert repository in config
