"""Networks whose tokens are channels."""
