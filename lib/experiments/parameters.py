"""What a run needs to know besides its seed, and which part of it makes the run's question."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lib.training.settings import FitSettings


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
