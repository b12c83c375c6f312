"""Put the weights of a training folder into the package, with their card: the last step before a release.

    python benchmarks/gift.py --data-dir DATA --weights RUN --name RUN --out results/gift.csv
    python benchmarks/release_glance.py --weights RUN --name RUN --version 1 --trained-on "one NVIDIA H200" --watts 700

`--size glance_small` puts them beside `glance`, under that name: `Forecaster(model="glance_small")` then forecasts by
them. The card's scores are the rows of `results/gift.csv` that have this name; without such rows nothing is released.
"""

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from _rows import read
from rearview.pretrained import weights
from rearview.pretrained.training import read_network

ROOT = Path(__file__).resolve().parent.parent
DATA = "synthetic series alone (rearview.data.synthetic.prior); no real series was seen"


def read_scores(path: Path, name: str) -> dict[str, float]:
    """Geometric means relative to seasonal naive over the last row of each task, and how often tests were looked at.

    Rows of glance-1, glance-1.1 and glance-1.2 are earlier looks with the weights of glance-1.3. Looks at a cut of the
    tests, and with the portfolio that has glance among its members, are counted in `portfolio_tests.csv` beside the
    file, too.
    """
    rows = read(path)
    forms = re.compile(rf"{re.escape(name.partition('.')[0])}(\.\d+)?")
    family = [row for row in rows if forms.fullmatch(row["model"])]
    scores: dict[str, float] = {}
    if not any(row["model"] == name for row in family):
        return scores
    for kind in sorted({row["tasks"] for row in family}):
        tasks = _by_task(family, kind)
        last = [looks[-1] for looks in tasks.values()]
        for measure in ("mase", "crps"):
            logs = [math.log(float(row[measure]) / float(row[f"naive_{measure}"])) for row in last]
            scores[f"{kind}: relative {measure.upper()}, {len(last)} tasks"] = round(math.exp(sum(logs) / len(logs)), 4)
        if kind != "development":
            scores[f"{kind}: looks"] = max(map(len, tasks.values()))
    cut = path.with_name("portfolio_tests.csv")
    seen = read(cut) if cut.exists() else []
    others = {
        "cut to 20 series and 4 windows": [row for row in seen if row["arm"] == weights.NAME],
        "as a member of auto": [
            *(row for row in seen if row["arm"] == "auto"),
            *(row for row in rows if row["model"] == "auto"),
        ],
    }
    for how, looks in others.items():
        for kind in sorted({row["tasks"] for row in looks}):
            scores[f"{kind}, {how}: looks"] = max(map(len, _by_task(looks, kind).values()))
    return scores


def _by_task(rows: Sequence[dict[str, str]], kind: str) -> dict[str, list[dict[str, str]]]:
    """The rows of each task of a kind, the oldest first."""
    tasks: dict[str, list[dict[str, str]]] = {}
    for row in sorted((row for row in rows if row["tasks"] == kind), key=lambda row: row["created"]):
        tasks.setdefault(row["task"], []).append(row)
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="the training folder")
    parser.add_argument("--name", required=True, help="what the rows of the scores call the model")
    parser.add_argument("--scores", type=Path, default=ROOT / "results" / "gift.csv")
    parser.add_argument("--size", default=weights.NAME, help="what the weights are asked for by")
    parser.add_argument("--version", required=True)
    parser.add_argument("--trained-on", required=True, help="the device")
    parser.add_argument("--watts", type=float, default=0.0, help="of the device while it trained")
    parser.add_argument("--weakness", action="append", default=[], help="where forecasts are known to be weak")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "rearview" / "pretrained" / "weights")
    options = parser.parse_args()
    scores = read_scores(options.scores, options.name)
    if not scores:
        raise SystemExit(f"{options.scores} has no row of {options.name}; run benchmarks/gift.py with --out first.")
    network, facts = read_network(options.weights)
    plan = facts["plan"]
    card = weights.Card(
        name=options.size,
        version=options.version,
        licence="Apache-2.0",
        created=datetime.now(UTC).date().isoformat(),
        data=DATA,
        attention=plan["attention"],
        settings=asdict(network.settings),
        parameters=sum(weight.numel() for weight in network.parameters()),
        updates=facts["updates"],
        seconds=round(facts["seconds"], 1),
        device=options.trained_on,
        kilowatt_hours=round(options.watts * facts["seconds"] / 3.6e6, 4),
        scores=scores,
        weaknesses=tuple(options.weakness),
    )
    card = weights.write(options.out, network.state_dict(), card)
    print(f"{options.out}: {card.parameters:,} parameters, {card.size:,} bytes; {card.scores}")


if __name__ == "__main__":
    main()
