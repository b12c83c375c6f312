"""The default detector: several simple detectors and a network, made comparable on held-out rows and combined."""
