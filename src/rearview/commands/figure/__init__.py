"""The `figure` command: what the papers draw, drawn from our data, networks and rows."""
