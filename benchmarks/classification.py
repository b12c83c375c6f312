"""Accuracy on ten sets of the UEA archive: TOA's three kinds, with and without its regularisation, beside softmax.

    python benchmarks/classification.py --data-dir data --results results/classification.csv --workers 8 --seconds 500

It runs the table `rearview:classification` under both protocols. Runs that the results hold already are skipped, so a
run that was cut off is taken up again by the same command. No run begins after --seconds; each worker is a process of
its own, and all share the device.
"""

from pathlib import Path

import _classification_table
from _labelled import read_options, sweep

PROTOCOLS = ("clean", "published:tslib")


def main() -> None:
    """Run what is missing and show the tables beside TOA's."""
    options = read_options(__doc__, Path("results/classification.csv"))
    sweep([("classification", protocol) for protocol in PROTOCOLS], options)
    show(options.results)


def show(results: Path) -> None:
    """The tables beside TOA's."""
    from rearview.bench.rows.result_file import read
    from rearview.bench.rows.row import ClassificationRow

    rows = read(results, ClassificationRow)
    for protocol in PROTOCOLS:
        print("", *_classification_table.lines(rows, protocol), sep="\n")


if __name__ == "__main__":
    main()
