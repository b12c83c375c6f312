"""Networks that other packages keep, under their own names, through our windows, loop and rows.

One file a network: its settings in our words, and which class of which package it is. The packages come with
`pip install 'rearview[baselines]'` and are imported when a network is created, not before.
"""
