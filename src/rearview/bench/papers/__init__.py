"""The papers: their printed numbers and their experiments."""
