"""Sources of sequences whose mutual information is known; real text is in `lib.processes.corpora`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lib.processes.binary.power_law import PowerLawBinary
    from lib.processes.binary.sign import sign_correlation, sign_mutual_information
    from lib.processes.discrete.ising import IsingChain
    from lib.processes.discrete.lagged_sum import LaggedSum
    from lib.processes.discrete.markov import MarkovChain
    from lib.processes.discrete.recall import CopyTask, DenoiseTask
    from lib.processes.discrete.repetitive import IdenticalTokens, RepetitiveSequence
    from lib.processes.discrete.santa_fe import SantaFeProcess
    from lib.processes.gaussian.hierarchical import HierarchicalGaussian
    from lib.processes.gaussian.sequences import AutoregressiveGaussian, EquicorrelatedGaussian, PowerLawGaussian
    from lib.processes.linear_rnn.law import LinearRNN
    from lib.processes.ngram.grammar import TemplateGrammar
    from lib.processes.ngram.language import NgramLanguage
    from lib.processes.ngram.sentences import SentenceList
else:
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

    def __getattr__(name: str) -> Any:
        """A process, imported when it is first asked for: who reads a corpus waits for none of them."""
        for place, names in _PLACES.items():
            if name in names:
                return globals().setdefault(name, getattr(importlib.import_module(f"lib.processes.{place}"), name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AutoregressiveGaussian",
    "CopyTask",
    "DenoiseTask",
    "EquicorrelatedGaussian",
    "HierarchicalGaussian",
    "IdenticalTokens",
    "IsingChain",
    "LaggedSum",
    "LinearRNN",
    "MarkovChain",
    "NgramLanguage",
    "PowerLawBinary",
    "PowerLawGaussian",
    "RepetitiveSequence",
    "SantaFeProcess",
    "SentenceList",
    "TemplateGrammar",
    "sign_correlation",
    "sign_mutual_information",
]
