"""Result rows: what they hold, when two are one run, the files that keep them."""
