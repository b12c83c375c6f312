"""Controls: layers in the place of attention that compare no tokens, to see whether attention earns its place."""
