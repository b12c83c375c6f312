"""Synthetic series of every usual kind, drawn in batches on any device: what a zero-shot forecaster is trained on.

    from rearview.data.synthetic import prior

    sample = prior.draw(4096, 2304, torch.Generator("cuda").manual_seed(0))
    sample.values      # [series, step] float32
    sample.observed    # [series, step] bool, False where a value is missing

A series is a sum or a product of ingredients (trends, seasons, processes, shocks), seen through noise and recorded as
people record (counts, zeros, ceilings, rounding, gaps). Each ingredient is a function of a `Draw`: so many series, so
many steps, one generator. No real series is involved.
"""

from rearview.data.synthetic.prior.channels import draw_coupled
from rearview.data.synthetic.prior.draws import Draw
from rearview.data.synthetic.prior.series import COARSER, Sample, draw

__all__ = ["COARSER", "Draw", "Sample", "draw", "draw_coupled"]
