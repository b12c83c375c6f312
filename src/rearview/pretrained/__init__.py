"""Pre-training of networks on synthetic series."""
