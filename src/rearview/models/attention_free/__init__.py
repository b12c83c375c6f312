"""Networks without attention."""
