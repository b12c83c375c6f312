"""Networks of other packages, run through our windows, training loop and result rows.

One file a network: its settings in our words, and which class of which package it is. The packages come with
the extra `baselines` and are imported when a network is created, not before.
"""

from importlib.util import find_spec

from rearview.core.errors import SettingsError
from rearview.core.installation import install_command


def require(package: str, name: str, project: str | None = None) -> None:
    """Refuse the network `name` where the package it comes with is not installed."""
    if find_spec(package) is None:
        raise SettingsError(
            f"{name} is a network of {project or package}, which is not installed: {install_command('baselines')}."
        )
