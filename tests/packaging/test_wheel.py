"""The wheel holds the whole package, and the container's recipe names files that are here."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rearview"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is left in the checkout."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(PACKAGE, copy / "src" / "rearview", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools.build_meta import build_wheel; build_wheel('out')"
    (copy / "out").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (built,) = (copy / "out").glob("*.whl")
    return built


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) > 100
    assert [str(path) for path in files if path.relative_to(ROOT / "src").as_posix() not in held] == []
    assert not [name for name in held if name.startswith(("tests", "benchmarks", "results"))]


def test_the_unpacked_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    run = (
        "import sys, rearview; from rearview.cli import main; from rearview.pretrained import weights;"
        "print(rearview.__file__); print(weights.load(weights.read_card()).horizon);"
        "sys.exit(main(['list', 'presets']) or main(['list', 'datasets']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")}
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    where, horizon, *_ = done.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert horizon == "64"
    assert "ETTh1" in done.stdout


def test_the_container_copies_what_is_here_and_starts_the_command() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert {"pyproject.toml", "constraints.txt", "src"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    let_through = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [name for name in copied if f"!{name}" not in let_through] == []
    assert 'ENTRYPOINT ["rearview"]' in lines
