"""The page of a classification."""
