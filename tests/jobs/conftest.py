"""The generators of broken files and the small frames are importable by these tests."""

import sys
from pathlib import Path

for folder in ("jobs", "data", "forecasting"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
