"""Benchmarks: one run on one catalogue set under one protocol, kept as one self-contained row."""
