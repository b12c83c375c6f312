"""The toys of this folder are importable by its tests, and by the processes they start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
