"""Files that are written whole or not at all, and data files that come with the package."""

import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any


@cache
def read_yaml(package: str, name: str) -> Any:
    """The content of a YAML file of a package, read once."""
    import yaml

    return yaml.safe_load(resources.files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


def freeze(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of such a file whose lists are tuples, as a frozen value has them."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def list_yaml(package: str) -> list[str]:
    """The names of a package's YAML files."""
    names = (file.name for file in resources.files(package).iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def write_atomically(path: Path, content: bytes | str) -> None:
    """Put content at a path; whoever reads it, even after a kill or a power cut, sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # One fixed name beside the target: what a killed process left half-written is overwritten by the next write.
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # The new name itself must reach the disk too, not only the bytes it points at.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
