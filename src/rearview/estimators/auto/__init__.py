"""A portfolio of forecasters, backtested, weighted and combined within a time limit."""
