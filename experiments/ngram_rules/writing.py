"""Let a network complete a prompt in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lib.checks import generator, whole_number
from lib.models.scoring import evaluating
from lib.processes.ngram.language import NgramLanguage


def write(
    model: Any,
    language: NgramLanguage,
    prompt: str,
    seed: int | np.random.Generator | None = None,
    longest: int = 40,
    device: torch.device | str = "cpu",
) -> str:
    """The prompt and the words that the network adds to it, up to the end mark or `longest` words in all.

    Each word is the most likely one, or drawn from the network's distribution if a seed is given. The network has the
    words of the language as its first tokens and the end mark after them. device: where it is. Raises ValueError for a
    prompt that begins no sentence of the language. Cost O(words) steps.
    """
    if not language.completions(prompt):
        raise ValueError(f"prompt: the beginning of a sentence of the language is allowed, got {prompt!r}")
    random = None if seed is None else generator(seed)
    ids, end = language.encode(prompt).tolist(), len(language.words)
    state = model.initial_state(1)
    with evaluating(model):
        for token in ids:
            logits, state = model.step(torch.tensor([token], device=device), state)
        while len(ids) < whole_number(longest, "longest", 1):
            law = logits[0].double().softmax(dim=-1).cpu().numpy()
            token = int(law.argmax() if random is None else random.choice(len(law), p=law))
            if token == end:
                break
            ids.append(token)
            logits, state = model.step(torch.tensor([token], device=device), state)
    return " ".join(language.decode(ids))
