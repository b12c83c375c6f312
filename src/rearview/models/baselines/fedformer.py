"""FEDformer (Zhou et al., 2022), neuralforecast's: attention between a few frequencies, trend and season taken apart.

neuralforecast reads one channel at a time and has the Fourier form with 8 heads alone. Which frequencies are kept is
drawn when a network is made and decides what its parameters mean; neuralforecast does not store it, so it stands among
our buffers and comes back with them. Blocks of the encoder share one map between frequencies, and so do those of the
decoder; a state holds it once. The maps are complex and stay in single precision.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from rearview.models.baselines._neuralforecast import DECODER_ARGUMENTS, DecoderSettings, NeuralforecastNetwork
from rearview.models.contract import ModelClaims, Shape

_DRAWN = ("index", "index_q", "index_kv")
"""Attributes of neuralforecast's Fourier blocks: the frequencies they keep, as lists."""


@dataclass(frozen=True, slots=True)
class Settings(DecoderSettings):
    """Settings of FEDformer; the defaults are neuralforecast's."""

    modes: int = 64
    """Frequencies that are kept, at most."""
    select: Literal["random", "low"] = "random"
    """The frequencies that are kept: drawn by chance, or the lowest."""
    kernel: int = 25
    """Steps of the moving average that is the trend."""


class Network(NeuralforecastNetwork):
    """neuralforecast's FEDformer."""

    claims = ModelClaims(attention=False, uses_marks=True, reads_ahead=True, scale_free=False)
    kind = "FEDformer"
    arguments: ClassVar = {**DECODER_ARGUMENTS, "modes": "modes", "select": "mode_select", "kernel": "MovingAvg_window"}

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape, settings)
        self._places: list[tuple[nn.Module, str]] = []
        for block in self.network.modules():
            for drawn in _DRAWN:
                if isinstance(kept := getattr(block, drawn, None), list):
                    self.register_buffer(f"frequencies_{len(self._places)}", torch.tensor(kept))
                    self._places.append((block, drawn))
        first: dict[int, str] = {}
        parameters = self.named_parameters(remove_duplicate=False)
        named = [(name, first.setdefault(id(parameter), name)) for name, parameter in parameters]
        self._again = {name: known for name, known in named if name != known}
        self.register_state_dict_post_hook(_hold_once)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_hold_again)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(_restore)  # type: ignore[no-untyped-call]


def _hold_once(network: nn.Module, state: dict[str, Tensor], prefix: str, _: object) -> None:
    """Leave a shared parameter under the first of its names."""
    assert isinstance(network, Network)
    for name in network._again:
        state.pop(prefix + name, None)


def _hold_again(network: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Give a shared parameter its other names back."""
    assert isinstance(network, Network)
    for name, known in network._again.items():
        if prefix + known in state:
            state[prefix + name] = state[prefix + known]


def _restore(network: nn.Module, _: object) -> None:
    """Give the blocks the frequencies that were loaded."""
    assert isinstance(network, Network)
    for number, (block, drawn) in enumerate(network._places):
        setattr(block, drawn, network.get_buffer(f"frequencies_{number}").tolist())
