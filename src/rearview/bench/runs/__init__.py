"""Making runs: specs, checks beforehand, one run of each task, sweeps over processes and machines."""
