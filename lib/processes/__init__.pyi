"""What `lib.processes` exports, for those who check types."""

from lib.processes.binary.power_law import PowerLawBinary as PowerLawBinary
from lib.processes.binary.sign import (
    sign_correlation as sign_correlation,
)
from lib.processes.binary.sign import (
    sign_mutual_information as sign_mutual_information,
)
from lib.processes.discrete.ising import IsingChain as IsingChain
from lib.processes.discrete.lagged_sum import LaggedSum as LaggedSum
from lib.processes.discrete.markov import MarkovChain as MarkovChain
from lib.processes.discrete.recall import CopyTask as CopyTask
from lib.processes.discrete.recall import DenoiseTask as DenoiseTask
from lib.processes.discrete.repetitive import (
    IdenticalTokens as IdenticalTokens,
)
from lib.processes.discrete.repetitive import (
    RepetitiveSequence as RepetitiveSequence,
)
from lib.processes.discrete.santa_fe import SantaFeProcess as SantaFeProcess
from lib.processes.gaussian.hierarchical import HierarchicalGaussian as HierarchicalGaussian
from lib.processes.gaussian.sequences import (
    AutoregressiveGaussian as AutoregressiveGaussian,
)
from lib.processes.gaussian.sequences import (
    EquicorrelatedGaussian as EquicorrelatedGaussian,
)
from lib.processes.gaussian.sequences import (
    PowerLawGaussian as PowerLawGaussian,
)
from lib.processes.linear_rnn.law import LinearRNN as LinearRNN
from lib.processes.ngram.grammar import TemplateGrammar as TemplateGrammar
from lib.processes.ngram.language import NgramLanguage as NgramLanguage
from lib.processes.ngram.sentences import SentenceList as SentenceList
