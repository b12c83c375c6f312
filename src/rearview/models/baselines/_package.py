"""What is said where the package of a network is missing."""

from importlib.util import find_spec

from rearview.core.errors import SettingsError


def require(package: str, name: str, project: str | None = None) -> None:
    """Refuse the network `name` where the package it comes with is not installed."""
    if find_spec(package) is None:
        raise SettingsError(
            f"{name} is a network of {project or package}, which is not installed: pip install 'rearview[baselines]'."
        )
