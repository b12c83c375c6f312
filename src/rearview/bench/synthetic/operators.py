"""Operator cases (TOA, appendix D): the five regimes whose best operator is signed, each learned by the same network.

The network is that of the harmonic study: every token a step (a channel in demixing), absolute positions, two layers of
two heads, post-norm. An arm is a case and a mechanism; `fixed` is one learned matrix for all samples, which tells what
a case needs beyond a signed operator. Case D is the harmonic study's, here at the same size as the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rearview.attention import Spec
from rearview.bench.rows.row import Facts
from rearview.bench.synthetic.harmonic import HarmonicSize, Restorer, thin
from rearview.bench.synthetic.study import Arrays, Measurement, Study, SyntheticRow, Trial, fixed_generator
from rearview.core.files import read_yaml
from rearview.data.synthetic.operators import CASES, Samples, draw_samples, linear_floor
from rearview.train.evaluation import evaluation_mode

LOOKED_AT = 24
"""Samples over which operators are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorsRow(SyntheticRow):
    """The result of an arm: the mean squared error on fixed samples of its case."""

    mse: float
    linear_floor: float
    """The error of the best linear operator that is the same for every sample."""
    negative: float
    """Share of the effective operators' absolute weight that is negative."""


class OperatorTrial(Trial[Samples]):
    """A network that learns a case, and its test samples."""

    network: Restorer

    def __init__(self, size: HarmonicSize, arm: str, device: str) -> None:
        self.size, self.device, self.case = size, device, arm.partition("/")[0]
        self.network = Restorer(size, STUDY.spec(arm)).to(device)
        drawn = draw_samples(self.case, size.tested, size.length, generator=fixed_generator(CASES.index(self.case)))
        self.tested = Samples(*(part.to(device) for part in drawn))

    def batch(self, index: Int[Tensor, " window"], /) -> Samples:
        return draw_samples(self.case, len(index), self.size.length, device=self.device)

    def loss(self, model: nn.Module, batch: Samples, /) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        errors = (model(batch.seen).float() - batch.wanted).square()
        return errors.sum(), torch.full((), errors.numel(), dtype=torch.float32, device=errors.device)

    def measure(self) -> dict[str, float]:
        output = torch.cat([self.network(part) for part in self.tested.seen.split(self.size.batch)])
        return {"mse": (output.double() - self.tested.wanted.double()).square().mean().item()}

    def report(self, measured: Sequence[Measurement]) -> tuple[Facts, Arrays]:
        with evaluation_mode(self.network):
            several = self.network.operators(self.tested.seen[:LOOKED_AT]).float()
            output = self.network(self.tested.seen[:1])[0]
        negative = several.clamp(max=0).abs().sum().item() / several.abs().sum().item()
        lines = {"seen": self.tested.seen[0], "wanted": self.tested.wanted[0], "made": output}
        arrays = {"operators": thin(several[:, 0]), **{of: line.float().cpu().numpy() for of, line in lines.items()}}
        return {"linear_floor": linear_floor(self.case, self.size.length), "negative": negative}, arrays


def list_arms(full: bool) -> Mapping[str, Spec]:
    """Every case with every mechanism."""
    mechanisms = read_yaml("rearview.bench.synthetic", "studies")["operators"]["mechanisms"]
    return {f"{case}/{name}": spec for case in CASES for name, spec in mechanisms.items()}


STUDY = Study.declare("operators", OperatorsRow, HarmonicSize, OperatorTrial, arms=list_arms)
