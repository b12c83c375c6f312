"""Tasks: losses, metrics, intervals, thresholds, and defaults with their reasons."""
