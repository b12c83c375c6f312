"""The page of a forecast."""
