"""What a classifier does behind its face: plan, hold out, scale, train, answer, and keep on disk."""
