"""Two processes that share a run do what one does with the doubled batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from rearview.core.errors import SettingsError
from rearview.train import parallel

SCRIPT = Path(__file__).with_name("shared_run.py")


def outcome(*command: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, *command], capture_output=True, check=False, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_two_processes_are_one_with_the_doubled_batch():
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    two = outcome(*launch, str(SCRIPT), "8")
    one = outcome(str(SCRIPT), "16")
    assert two["processes"] == 2
    assert one["processes"] == 1
    # 45 windows are two updates of 16 and one of 13, which the processes share as 7 and 6.
    torch.testing.assert_close(torch.tensor(two["losses"]), torch.tensor(one["losses"]), rtol=1e-4, atol=1e-6)
    # Not the weights: a bias on keys changes nothing, its gradient is rounding, and Adam follows the rounding.
    torch.testing.assert_close(torch.tensor(two["forecasts"]), torch.tensor(one["forecasts"]), rtol=1e-3, atol=1e-4)


def test_a_single_process_shares_nothing():
    index = torch.arange(7)
    assert parallel.size() == 1
    assert parallel.rank() == 0
    assert parallel.share(index) is index
    model = nn.Linear(2, 3)
    parameters = list(model.parameters())
    assert parallel.sum_gradients(parameters, torch.tensor(5.0)) == 5
    assert all(parameter.grad is None for parameter in parameters)


def test_half_a_launch_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="start the processes with torchrun"):
        parallel.begin(torch.device("cpu"))
