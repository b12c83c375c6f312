"""Networks trained on synthetic series: the weights that come with the package, and how they are made."""
