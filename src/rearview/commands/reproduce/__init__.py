"""The `reproduce` command: a paper's table, or a synthetic study, made again beside the printed numbers."""
