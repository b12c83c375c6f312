"""What every test shares: checked shapes, one torch thread and its seed, real data sets, slow tests first."""

import importlib.util
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[1] / "src"
# Of these stages, one by one: a check wrapped around a kernel would be compiled for the GPU in its place.
_CHECKED = [
    f"rearview.{stage}.{part.stem}"
    for stage in ("attention", "models")
    for part in (_SOURCE / "rearview" / stage).iterdir()
    if part.stem not in ("__init__", "kernels", "__pycache__")
]
_CHECKED += ["rearview.embed"]

if all(importlib.util.find_spec(package) for package in ("jaxtyping", "beartype")):
    from jaxtyping import install_import_hook

    # Installed before any test imports rearview: from then on every annotated shape is compared with its tensor.
    install_import_hook(_CHECKED, "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow tests: a long one at the end would keep one worker busy while the others wait."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test draw the same numbers whatever ran before it, so that what fails once fails again."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(zlib.crc32(item.nodeid.encode()))


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """One torch thread: sums come out in one order, so equal runs are equal bit for bit, and workers don't compete."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No run-time checks of shapes: they would answer before the library does, and no compiler can trace them."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of benchmark files; without it the test is skipped."""
    folder = os.environ.get("REARVIEW_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are needed: set REARVIEW_DATA to a folder that holds them")
    return Path(folder)


@pytest.fixture
def glance_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small weights of glance, drawn from a seed, in the place of those that come with the package."""
    import torch

    from rearview.models.contract import Shape
    from rearview.models.patch_hosts.glance import Network, Settings
    from rearview.pretrained import weights

    settings = {
        "width": 16,
        "heads": 2,
        "depth": 2,
        "feed_forward": 24,
        "context": (16, 16),
        "ahead": (6, 6),
        "patches": (2, 8),
    }
    torch.manual_seed(7)
    network = Network(Shape(channels=1, lookback=64, steps=8), Settings(**settings))
    folder = tmp_path / "weights"
    card = weights.Card(
        version="test", licence="Apache-2.0", created="2026-01-01", data="nothing", attention="softmax",
        settings=settings, parameters=sum(one.numel() for one in network.parameters()), updates=0, seconds=0.0,
        device="cpu",
    )  # fmt: skip
    weights.write(folder, network.state_dict(), card)
    monkeypatch.setattr(weights, "FOLDER", folder)
    return folder
