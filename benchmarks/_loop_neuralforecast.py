"""neuralforecast's training behind a gate, Lightning and its data handling included; started by train_speed.py.

Runs in neuralforecast's own environment, so it imports nothing of rearview. PatchTST there reads one series at a time:
a step of 128 windows of 7 channels is a step of 896 windows. iTransformer reads all 7 at once, as ours does.
"""

import json
import sys
from typing import Any

import neuralforecast
import pandas as pd
import torch
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import MSE
from neuralforecast.models import PatchTST, iTransformer
from pytorch_lightning import Callback, LightningModule, Trainer

from _gate import Gate, memory


class Gated(Callback):
    """Lets Lightning go on only when the gate does."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if not self.gate.step():
            trainer.should_stop = True

    def __deepcopy__(self, memo: dict[int, Any]) -> "Gated":
        # neuralforecast copies its arguments; there is one gate.
        return self


def network(case: dict[str, Any], gate: Gate, series: int) -> LightningModule:
    """The case's network with neuralforecast's names for its settings."""
    settings = case["settings"]
    common = {
        "h": case["horizon"],
        "input_size": case["lookback"],
        "hidden_size": settings["width"],
        "n_heads": settings["heads"],
        "dropout": settings["dropout"],
        "batch_size": series,
        "loss": MSE(),
        "learning_rate": 1e-4,
        "max_steps": 1_000_000,
        "val_check_steps": 1_000_000,
        "accelerator": "gpu" if case["device"] == "cuda" else "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "callbacks": [Gated(gate)],
    }
    if case["model"] == "patchtst":
        return PatchTST(
            **common,
            windows_batch_size=case["batch"] * series,
            encoder_layers=settings["depth"],
            linear_hidden_size=settings["feed_forward"],
            patch_len=settings["patch"],
            stride=settings["stride"],
            revin=True,
            revin_affine=False,
            revin_subtract_last=False,
            res_attention=True,
            attn_dropout=0.0,
            head_dropout=0.0,
        )
    return iTransformer(
        **common,
        windows_batch_size=case["batch"],
        n_series=series,
        e_layers=settings["depth"],
        d_ff=settings["feed_forward"],
        use_norm=True,
    )


def main(case: dict[str, Any]) -> None:
    gate = Gate()
    cuda = case["device"] == "cuda"
    if cuda:
        gate.synchronise = torch.cuda.synchronize
    wide = pd.read_csv(case["file"], parse_dates=["date"])
    long = wide.melt(id_vars="date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    model = network(case, gate, wide.shape[1] - 1)
    gate.answer(
        library="neuralforecast",
        version=neuralforecast.__version__,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        parameters=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
    )
    if gate.wait():
        NeuralForecast(models=[model], freq="h", local_scaler_type="standard").fit(long)
    gate.answer(peak=torch.cuda.max_memory_allocated() if cuda else memory("VmHWM"))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
