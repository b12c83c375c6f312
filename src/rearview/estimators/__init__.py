"""Forecaster, Detector and Classifier: from frames to fitted networks and answers."""
