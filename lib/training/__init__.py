"""Training: settings, tasks, the fit itself with its checkpoints, and generation from what was trained."""

from lib.training.checkpoint import CheckpointError
from lib.training.fit import Fit, fit
from lib.training.generate import generate
from lib.training.settings import FitSettings
from lib.training.tasks import NextToken, Task, position_losses

__all__ = ["CheckpointError", "Fit", "FitSettings", "NextToken", "Task", "fit", "generate", "position_losses"]
