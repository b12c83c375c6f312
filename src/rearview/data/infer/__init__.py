"""What a file leaves unsaid: column roles, time stamps, step, row order, how numbers are written."""
