"""Features of whole series that need no training: convolutions, shapelets and quantiles drawn at random from cases.

Each module draws its numbers once (`draw`) and maps values [case, channel, time] to features [case, feature], on a CPU
or a GPU. The numbers are tensors in a frozen dataclass, so that a model's folder can hold them.
"""
