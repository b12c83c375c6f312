"""What the commands do: each a function that takes plain values and returns a finished result."""
