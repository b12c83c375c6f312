"""Controls: layers in the place of attention, blind to what tokens hold, to see whether attention earns its place."""
