"""Whole series that each belong to a class: read, held out, padded."""
