"""From ordinary rows to scores, flags and segments of new ones."""
