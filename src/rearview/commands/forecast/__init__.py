"""`rearview forecast`, `predict` and `demo`."""
