"""The page about result rows."""
