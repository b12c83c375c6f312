"""`rearview reproduce`."""
