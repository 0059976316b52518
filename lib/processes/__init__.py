"""Sources of sequences whose mutual information is known; real text is in `lib.processes.corpora`."""

from lib.processes.gaussian_sequences import AutoregressiveGaussian, EquicorrelatedGaussian, PowerLawGaussian
from lib.processes.hierarchical import HierarchicalGaussian
from lib.processes.identical import IdenticalTokens
from lib.processes.ising import IsingChain
from lib.processes.linear_rnn import LinearRNN
from lib.processes.markov import MarkovChain
from lib.processes.markov_order import LaggedSum
from lib.processes.ngram_language import NgramLanguage
from lib.processes.power_law import PowerLawBinary
from lib.processes.repetitive import RepetitiveSequence
from lib.processes.santa_fe import SantaFeProcess
from lib.processes.sentences import SentenceList
from lib.processes.sign import sign_correlation, sign_mutual_information
from lib.processes.template_grammar import TemplateGrammar

__all__ = [
    "AutoregressiveGaussian",
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
