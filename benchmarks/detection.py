"""Anomaly detection on labelled sets: networks x attentions x seeds under both protocols, as rows of one CSV.

    python benchmarks/detection.py --data-dir DATA --results results/detection.csv --seconds 600 --workers 4

It runs the table `rearview:detection` under both protocols, and `rearview:detection-hidden`. Runs that the CSV holds
already are not made again, and none begins after `--seconds`: call it again to go on. Several workers share one GPU,
which a single small network can't fill.
"""

from pathlib import Path

from _labelled import read_options, sweep

PARTS = (("detection", "published:tslib"), ("detection", "clean"), ("detection-hidden", "clean"))


def main() -> None:
    """Run what is missing."""
    sweep(PARTS, read_options(__doc__, Path("results/detection.csv")))


if __name__ == "__main__":
    main()
