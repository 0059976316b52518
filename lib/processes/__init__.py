"""Sources of sequences whose mutual information is known; real text is in `lib.processes.corpora`."""

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
