"""The `predict` command: a saved model on new rows or cases."""
