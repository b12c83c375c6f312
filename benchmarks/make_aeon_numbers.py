"""Numbers of aeon's feature transforms and distances, for the tests: `tests/golden/features_aeon_drawn.npz`.

    python -m venv AEON && AEON/bin/pip install aeon==1.6.0 torch
    AEON/bin/python benchmarks/make_aeon_numbers.py --out tests/golden/features_aeon_drawn.npz

Kernels fitted to one case of one channel leave nothing to chance: dilations, biases of a kernel at each of them and the
biases themselves are aeon's, and so are the features of other cases. Hydra's kernels are always drawn, so that its
weights are kept. Distances are those of warped pairs of cases, by the share of steps that a path may stray.

With --check, aeon computes the features in `tests/golden/features_aeon.npz` again, from the kernels stored there, and
the largest differences are shown.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, Any]
STEPS = (10, 29, 64, 151)
BIASES = 84 * 7
BANDS = (0.05, 0.1, 0.2)


def draw(steps: int, random: np.random.Generator) -> Arrays:
    """What aeon fits to one case of so many steps, and the features of three others."""
    from aeon.transformations.collection.convolution_based import HydraTransformer, MiniRocket, MultiRocket

    one = random.standard_normal((1, 1, steps)).astype(np.float32)
    others = random.standard_normal((3, 1, steps)).astype(np.float32)
    twice = np.concatenate([one, one])  # MultiRocket drops the axis of cases where there is only one
    mini = MiniRocket(n_kernels=BIASES, random_state=0).fit(twice)
    _, _, dilations, counts, biases = mini.parameters
    multi = MultiRocket(n_kernels=BIASES, random_state=0).fit(twice)
    hydra = HydraTransformer(n_groups=6, random_state=0).fit(one)
    return {
        "case": one,
        "values": others,
        "dilations": dilations.astype(np.int64),
        "counts": counts.astype(np.int64),
        "biases": biases,
        "mini": mini.transform(others),
        "multi_biases": multi.parameter[2],
        "multi": multi.transform(others)[:, : 4 * len(biases)],
        "hydra_weights": hydra._hydra.W.unflatten(2, (3, 8)).squeeze(-2).numpy(),
        "hydra": hydra.transform(others).numpy(),
    }


def warp(random: np.random.Generator) -> Arrays:
    """Distances between cases of three channels."""
    from aeon.distances import dtw_pairwise_distance

    ones, others = random.standard_normal((3, 3, 40)), random.standard_normal((5, 3, 40))
    distances = [dtw_pairwise_distance(ones, others, window=share) for share in BANDS]
    return {"warp_ones": ones, "warp_others": others, "warp_shares": np.array(BANDS), "warp": np.stack(distances)}


def check(path: Path) -> None:
    """Compute stored features anew with aeon, from the kernels stored beside them."""
    import torch
    from aeon.transformations.collection.convolution_based import HydraTransformer, MiniRocket, MultiRocket
    from aeon.transformations.collection.convolution_based._minirocket import (
        _static_transform_multi,
        _static_transform_uni,
    )
    from aeon.transformations.collection.convolution_based._multirocket import _transform_multi, _transform_uni

    held = np.load(path)
    for which in ("uni", "multi"):
        values = held[f"{which}_values"]
        alone = which == "uni"
        for name in ("mini", "multi"):
            stored = {key: held[f"{which}_{name}_{key}"] for key in ("dilations", "counts", "channels", "biases")}
            reads = stored["channels"].reshape(-1, stored["channels"].shape[-1]).astype(bool)
            chosen: NDArray[np.int32] = np.concatenate([np.flatnonzero(row) for row in reads]).astype(np.int32)
            how = (stored["dilations"].astype(np.int32), stored["counts"].astype(np.int32), stored["biases"])
            full = (reads.sum(1).astype(np.int32), chosen, *how)
            if name == "mini":
                transform = _static_transform_uni if alone else _static_transform_multi
                again = transform(values[:, 0] if alone else values, full, MiniRocket._indices)
            else:
                transform, kernels = (_transform_uni, how) if alone else (_transform_multi, full)
                series = values[:, 0] if alone else values
                both = transform(series, np.diff(series), kernels, kernels, 4, MultiRocket._indices, 0)
                again = both[:, : both.shape[1] // 2]
            print(which, name, "largest difference", np.abs(again - held[f"{which}_{name}"]).max())
        hydra = HydraTransformer(n_groups=6, random_state=0).fit(values)._hydra
        hydra.W = torch.from_numpy(held[f"{which}_hydra_weights"]).flatten(2, 3).unsqueeze(3)
        hydra.idx = list(torch.from_numpy(held[f"{which}_hydra_channels"]))
        again = hydra(torch.from_numpy(values)).numpy()
        print(which, "hydra", "largest difference", np.abs(again - held[f"{which}_hydra"]).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/golden/features_aeon_drawn.npz"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        check(options.out.with_name("features_aeon.npz"))
        return
    random = np.random.default_rng(11)
    arrays: Arrays = {f"{steps}_{name}": array for steps in STEPS for name, array in draw(steps, random).items()}
    config = {
        "source": "aeon-toolkit/aeon",
        "release": "1.6.0",
        "file": "aeon/transformations/collection/convolution_based/; aeon/distances/elastic/_dtw.py",
        "note": f"kernels of {BIASES} biases fitted to one case; MultiRocket's features are those of the series alone",
    }
    np.savez_compressed(options.out, **arrays, **warp(random), config=np.array(json.dumps(config)))


if __name__ == "__main__":
    main()
