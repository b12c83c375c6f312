"""Hints that name a command fit how rearview was installed."""

import json

import pytest

from rearview.core import installation
from rearview.core.installation import install_command


@pytest.mark.parametrize(
    ("installer", "origin", "command"),
    [
        ("pip", None, "pip install 'rearview[ray]'"),
        ("uv", None, "uv pip install 'rearview[ray]'"),
        (
            "pip",
            {"dir_info": {"editable": True}, "url": "file:///a%20folder/rearview"},
            "pip install -e '/a folder/rearview[ray]'",
        ),
        ("pip", {"dir_info": {}, "url": "file:///src/rearview"}, "pip install '/src/rearview[ray]'"),
        (
            "uv",
            {"archive_info": {}, "url": "file:///dist/rearview-1.whl"},
            "uv pip install 'rearview[ray] @ file:///dist/rearview-1.whl'",
        ),
    ],
)
def test_the_command_that_adds_an_extra(
    installer: str, origin: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            if name == "INSTALLER":
                return f"{installer}\n"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(installation, "distribution", lambda name: Installed())
    assert install_command("ray") == command


def test_the_command_that_adds_an_extra_to_bare_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise installation.PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", missing)
    assert install_command("ray") == "pip install 'rearview[ray]'"
