"""HTML pages about finished runs: `common.page.write` puts a summary into one file that needs nothing else."""
