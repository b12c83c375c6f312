"""`rearview detect`."""
