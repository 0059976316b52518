"""Training: settings, tasks, the fit itself with its checkpoints, and generation from what was trained."""

from lib.training.checkpoint import CheckpointError
from lib.training.generation import generate, multiply_adds
from lib.training.loop import Fit, fit
from lib.training.newton import LevenbergMarquardt, sequence_gradients
from lib.training.settings import FitSettings
from lib.training.tasks import NextToken, StepLabels, Task, label_scores, position_losses
from lib.training.text import CarriedText, text_loss

__all__ = [
    "CarriedText",
    "CheckpointError",
    "Fit",
    "FitSettings",
    "LevenbergMarquardt",
    "NextToken",
    "StepLabels",
    "Task",
    "fit",
    "generate",
    "label_scores",
    "multiply_adds",
    "position_losses",
    "sequence_gradients",
    "text_loss",
]
