"""Parts that several mechanisms use: fused attention, rectified weights, rotary positions, graphs, execution."""
