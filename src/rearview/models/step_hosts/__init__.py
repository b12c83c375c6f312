"""Networks whose tokens are time steps."""
