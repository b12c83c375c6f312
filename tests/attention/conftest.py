"""The checks and strangers of this folder are importable by its tests, with pytest's readable assertions."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("shelf_checks")
