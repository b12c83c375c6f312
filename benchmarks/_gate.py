"""A training loop that runs in portions, when told to: how two libraries take turns on one noisy machine.

The loop's process stays alive between its turns and sleeps while the other one works, so neither is started twice and
both meet the same weather. Standard library alone: this file also runs in a peer's environment.

    ours:  run 20 -> {"seconds": ...}                        run 20 -> {"seconds": ...}
    peer:                            run 20 -> {"seconds": ...}
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Gate:
    """The loop's end: call `step` after every update; it waits between portions and says when to stop."""

    def __init__(self) -> None:
        # Whatever the library prints goes to stderr; the answers have the real stdout for themselves.
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._left = 0
        self._started = 0.0
        self.synchronise: Callable[[], None] = lambda: None
        self.watching = False
        """Whether this portion is for taking the step apart, not for timing it."""
        self.parts: dict[str, float] = {}
        """Seconds of this portion by part, kept by whoever watches."""

    def answer(self, **facts: Any) -> None:
        """Say something to whoever drives the loop."""
        self._answers.write(json.dumps(facts) + "\n")
        self._answers.flush()

    def wait(self) -> bool:
        """Sleep until the next portion is due; False when there is none."""
        order, _, count = sys.stdin.readline().strip().partition(" ")
        if order not in ("run", "watch"):
            return False
        self.watching, self.parts, self._left = order == "watch", {}, int(count)
        self._started = time.perf_counter()
        return True

    def step(self) -> bool:
        """An update is over; False when the loop should end."""
        self._left -= 1
        if self._left > 0:
            return True
        self.synchronise()
        self.answer(seconds=time.perf_counter() - self._started, **self.parts)
        return self.wait()


class Loop:
    """The driver's end: a training loop in a process of its own."""

    def __init__(self, python: Path | str, script: Path, facts: dict[str, Any], environment: dict[str, str]) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the process)
        self._process = subprocess.Popen(
            [str(python), str(script), json.dumps(facts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, **environment},
        )
        self.facts = self._read()

    def run(self, updates: int) -> float:
        """Seconds that the next updates take."""
        return float(self._ask(f"run {updates}")["seconds"])

    def watch(self, updates: int) -> dict[str, float]:
        """Seconds of the next updates, and of their parts."""
        return self._ask(f"watch {updates}")

    def stop(self) -> dict[str, Any]:
        """End the loop; what it has to say in the end."""
        answer = self._ask("stop")
        self._process.wait()
        self._complaints.close()
        return answer

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._complaints.seek(0)
            raise SystemExit(f"A training loop ended by itself:\n{self._complaints.read()[-4000:]}")
        return dict(json.loads(line))


def memory(field: str) -> int:
    """Bytes of this process by their name in Linux's status file: VmRSS now, VmHWM at most; 0 where there is none."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{field}:")), 0)
