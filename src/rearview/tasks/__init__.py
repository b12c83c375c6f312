"""What is asked of a model, its loss and its metrics."""
