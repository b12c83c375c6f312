"""Benchmark data sets by name: files, shapes, borders, stand-ins."""
