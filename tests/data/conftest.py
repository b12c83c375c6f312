"""The generator of broken files is importable by the tests of this folder and by those of the command line."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
