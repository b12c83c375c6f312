"""From a panel to a fitted detector and back: train, score, threshold, segments. Frames stay outside."""
