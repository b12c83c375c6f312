"""What tests of this folder import lies here, and for kernels beside those of attention."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "attention"))
