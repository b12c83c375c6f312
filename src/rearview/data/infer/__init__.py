"""What a file leaves unsaid: the time column, its step, the layout, the series."""
