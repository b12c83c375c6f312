"""Every benchmark script can be imported: what it takes from the package is there under that name."""

from importlib import import_module
from pathlib import Path

import pytest

ELSEWHERE = {"_loop_neuralforecast"}
"""Scripts that run in an environment of another library's."""


def test_every_script_can_be_imported(benchmark_scripts: Path) -> None:
    names = {path.stem for path in benchmark_scripts.glob("*.py")} - ELSEWHERE
    assert len(names) > 50
    for name in sorted(names):
        import_module(name)


@pytest.mark.usefixtures("benchmark_scripts")
def test_the_networks_whose_scaling_is_measured_are_those_of_the_paper() -> None:
    scaling = import_module("scaling")
    assert set(scaling.NETWORKS) <= set(scaling.CASES)
