"""The `runs`, `open` and `completion` commands."""

from pathlib import Path
from typing import Literal

from rearview.cli.command import command
from rearview.cli.parse import app


@command()
def runs(folder: Path = Path(), /) -> int:
    """List the runs made here: when, by which command, of which file, with which model and score, and where they are.

    Args:
        folder: Folder to look in; default: this one. Folders up to two levels below it are looked in, too.
    """
    from rearview.commands.runs import runs_command

    return runs_command(folder)


@command(name="open")
def open_(folder: Path | None = None, /) -> int:
    """Open the page of a run in a browser; where there is none, print the path of the page.

    Example: rearview open rearview-sales

    Args:
        folder: Folder of the run; default: the newest run made here.
    """
    from rearview.commands.runs import open_command

    return open_command(folder)


@command(json=False)
def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the script that completes commands and options in a shell.

    Examples: rearview completion bash > ~/.local/share/bash-completion/completions/rearview; rearview completion fish >
    ~/.config/fish/completions/rearview.fish; for zsh a file _rearview in a folder of its fpath.

    Args:
        shell: bash, zsh or fish.
    """
    from rearview.commands.console import print_lines

    print_lines([app.generate_completion(shell=shell)])
    return 0
