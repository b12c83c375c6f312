"""The default classifier: several simple classifiers, cross-validated on training cases, and their weighted vote."""
