"""One training loop for every model and task: optimisers, schedules, early stopping, checkpoint and resume."""

from rearview.train.contract import SelectingTask, Source, Task, TrainingError
from rearview.train.evaluation import evaluate
from rearview.train.history import Epoch, History
from rearview.train.loop import fit
from rearview.train.progress import JobLine, Line, Progress, Silent, follower
from rearview.train.settings import Settings

__all__ = [
    "Epoch", "History", "JobLine", "Line", "Progress", "SelectingTask", "Settings", "Silent", "Source", "Task",
    "TrainingError", "evaluate", "fit", "follower",
]  # fmt: skip
