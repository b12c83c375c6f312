"""What each command does, prints and writes."""
