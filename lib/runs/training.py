"""The common part of experiments that train: what a run needs to know, and how its training is done and described."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lib.training import Fit, FitSettings, fit
from lib.training.checkpoint import save_checkpoint
from lib.training.tasks import Task


class RunParameters(BaseModel):
    """Parameters of one run of an experiment, or a group of them; a field named `fit` holds what FitSettings accepts.

    A default is never changed, a new field is added: then every recorded run keeps its question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, given: Any, experiment: str) -> Self:
        """The parameters that a mapping names, defaults for the others. Raises ValueError for what is not allowed."""
        try:
            chosen = cls(**given)
        except ValidationError as error:
            raise ValueError(f"{experiment}: {error}") from None
        FitSettings(**getattr(chosen, "fit", {}))
        return chosen

    def asked(self) -> dict[str, Any]:
        """Those that differ from their defaults, in the groups as well, as JSON can hold them."""
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if not field.is_required() and value == field.get_default(call_default_factory=True):
                continue
            if isinstance(value, RunParameters):
                value = value.asked()
            elif name == "fit":
                value = FitSettings(**value).model_dump(exclude_defaults=True)
                if not value:
                    continue
            found[name] = value
        return found


def trained(
    model: Any,
    task: Task,
    settings: Mapping[str, Any],
    folder: Path,
    *,
    described: Mapping[str, Any],
    label: str,
    progress: bool,
) -> tuple[Fit, dict[str, Any]]:
    """Fit `model` in place, keep its weights in `folder`, and return the course with what every record says of it.

    folder: for the checkpoint, from which a second call goes on, and `model.safetensors`. described: what the run is;
    a checkpoint of another one is refused. settings: as FitSettings accepts them.
    """
    course = fit(
        model,
        task,
        FitSettings(**settings),
        checkpoint=folder / "checkpoint.safetensors",
        configuration=described,
        label=label,
        progress=progress,
    )
    weights = {name: tensor.float() for name, tensor in model.state_dict().items()}
    save_checkpoint(folder / "model.safetensors", weights, {}, dict(described))
    accuracies = {"accuracies": course.accuracies} if course.accuracies else {}
    return course, {
        **accuracies,
        "parameter_count": sum(parameter.numel() for parameter in model.parameters()),
        "training_losses": course.training_losses,
        "validation_losses": course.validation_losses,
        "best_epoch": course.best_epoch,
        "reason": course.reason,
        "training_seconds": course.seconds,
    }
