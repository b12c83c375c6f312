"""A training run that kills itself with SIGKILL at a moment of its choice; `python killed.py FOLDER [MOMENT]`.

A moment is "<what>:<n>": the n-th gather, or before or after the n-th time a file is synced or replaced.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from test_checkpoint import SETTINGS
from toys import TRAIN, VALIDATION, Squares, Table, network, without_seconds

from rearview import train


def die_at(what: str, moment: int) -> None:
    plain, calls = getattr(os, what), 0

    def watched(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*arguments)

    setattr(os, what, watched)


def main(folder: Path, what: str = "", number: int = 0) -> None:
    torch.set_num_threads(1)
    if what in ("fsync", "replace", "close"):
        die_at(what, number)

    def watch(gathers: int) -> None:
        sys.stdout.write(f"{gathers}\n")
        sys.stdout.flush()
        if what == "gather" and gathers == number:
            os.kill(os.getpid(), signal.SIGKILL)

    model = network()
    settings = train.Settings(**SETTINGS)
    history = train.fit(
        model, Squares(), Table(watch), TRAIN, VALIDATION, settings, checkpoint=folder / "run.safetensors", resume=True
    )
    save_file(model.state_dict(), folder / "result.safetensors")
    (folder / "history.json").write_text(json.dumps(without_seconds(history)))


if __name__ == "__main__":
    what, _, number = (sys.argv[2] if len(sys.argv) > 2 else ":0").partition(":")
    main(Path(sys.argv[1]), what, int(number))
