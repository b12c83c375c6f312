"""How rearview was installed, for hints that name a command."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """The command that adds an extra (`excel`, `ray`, ...) to this installation."""
    try:
        installed = distribution("rearview")
    except PackageNotFoundError:  # run from a folder of sources, or out of an unpacked archive
        return f"pip install 'rearview[{extra}]'"
    tool = "uv pip" if (installed.read_text("INSTALLER") or "").strip() == "uv" else "pip"
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if "dir_info" in origin:
        option = "-e " if origin["dir_info"].get("editable") else ""
        return f"{tool} install {option}'{unquote(urlsplit(origin['url']).path)}[{extra}]'"
    source = f" @ {origin['url']}" if "archive_info" in origin else ""
    return f"{tool} install 'rearview[{extra}]{source}'"
