"""One file of experiments a paper."""
