"""Series made from a seed: the demo's data and the papers' synthetic tasks."""
