"""Sources of sequences whose mutual information is known; real text is in `lib.processes.corpora`.

What they are is in `__init__.pyi` too, which tells those who check types.
"""

import importlib
from typing import Any

_PLACES = {
    "binary.power_law": ["PowerLawBinary"],
    "binary.sign": ["sign_correlation", "sign_mutual_information"],
    "discrete.ising": ["IsingChain"],
    "discrete.lagged_sum": ["LaggedSum"],
    "discrete.markov": ["MarkovChain"],
    "discrete.recall": ["CopyTask", "DenoiseTask"],
    "discrete.repetitive": ["IdenticalTokens", "RepetitiveSequence"],
    "discrete.santa_fe": ["SantaFeProcess"],
    "gaussian.hierarchical": ["HierarchicalGaussian"],
    "gaussian.sequences": ["AutoregressiveGaussian", "EquicorrelatedGaussian", "PowerLawGaussian"],
    "linear_rnn.law": ["LinearRNN"],
    "ngram.grammar": ["TemplateGrammar"],
    "ngram.language": ["NgramLanguage"],
    "ngram.sentences": ["SentenceList"],
}
__all__ = sorted(name for names in _PLACES.values() for name in names)


def __getattr__(name: str) -> Any:
    """A process, imported when it is first asked for: who reads a corpus waits for none of them."""
    for place, names in _PLACES.items():
        if name in names:
            return globals().setdefault(name, getattr(importlib.import_module(f"lib.processes.{place}"), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
