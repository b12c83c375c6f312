"""`rearview classify`."""
