"""The parts that networks are built from: one block and one stack, what encodes, decodes and reads out tokens."""
