"""The page of a detection."""
