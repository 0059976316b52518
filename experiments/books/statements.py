"""What the paper says about networks on books, as numbers of their mean curves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from experiments.books.contrasts import contrast, curves_of
from experiments.books.runs import EARLY, LATE, PUBLISHED, BookRun, Network, Networks, at_equal_tokens
from lib.information.intervals import UNKNOWN, Interval
from lib.report.gate import Plateau, Training, plateau_of
from lib.training.settings import FitSettings

Floats = NDArray[np.float64]
Pair = tuple[Network, Network]
NEAR = 0.05  # nats per token; early losses that differ by no more are called equal


def difference(first: Floats, second: Floats, weights: Floats) -> Any:
    """Mean of second minus first over the positions that `weights` weighs, nats per token."""
    return (second - first) @ weights


def late_gain(first: Floats, second: Floats, early: Floats, late: Floats) -> Any:
    """How much more `first` gains on its way from early to late positions than `second`, nats per token."""
    return (second - first) @ (late - early)


def crossed(first: Floats, second: Floats, early: Floats, late: Floats) -> Any:
    """The smaller of the early lead of `second` and the late lead of `first`: above 0 if the curves cross."""
    return np.minimum((first - second) @ early, (second - first) @ late)


def ranges(runs: Sequence[BookRun]) -> tuple[Floats, Floats, Floats]:
    """Weights of the bins of early, late and all positions."""
    curves = curves_of(runs)
    return curves.weights(*EARLY), curves.weights(*LATE), curves.weights()


def early_loss(runs: Sequence[BookRun]) -> float:
    """Mean NLL at early positions, nats per token."""
    return float(curves_of(runs).mean @ ranges(runs)[0])


def late_loss(runs: Sequence[BookRun]) -> float:
    """Mean NLL at late positions, nats per token."""
    return float(curves_of(runs).mean @ ranges(runs)[1])


class Comparisons:
    """Contrasts of pairs of networks, all with one number of replicates and one seed of the bootstrap.

    networks: all trainings. Compared are those at equal numbers of tokens (`at_equal_tokens`, at the budget if one is
    given), and the others say whether these had reached a plateau. Every method takes (first, second) and returns
    second minus first in nats per token, or the gain of first.
    """

    def __init__(
        self, networks: Networks, replicates: int = 2000, seed: int = 0, budget: tuple[int, float] | None = None
    ) -> None:
        self.trainings = networks
        usual = at_equal_tokens([run for runs in networks.values() for run in runs], budget)
        found = {network: [run for run in usual if run.network == network] for network in networks}
        self.networks: Networks = {network: runs for network, runs in found.items() if runs}
        self._contrast = partial(contrast, replicates=replicates, seed=seed)

    def mean(self, pair: Pair) -> Interval:
        return self._of(pair, lambda a, b, early, late, whole: difference(a, b, whole))

    def early(self, pair: Pair) -> Interval:
        return self._of(pair, lambda a, b, early, late, whole: difference(a, b, early))

    def late(self, pair: Pair) -> Interval:
        return self._of(pair, lambda a, b, early, late, whole: difference(a, b, late))

    def gain(self, pair: Pair) -> Interval:
        """Late minus early of the difference: what `first` gains on `second`."""
        return self._of(pair, lambda a, b, early, late, whole: late_gain(a, b, early, late))

    def crossed(self, pair: Pair) -> Interval:
        return self._of(pair, lambda a, b, early, late, whole: crossed(a, b, early, late))

    def decline(self, network: Network) -> Interval:
        """Early minus late NLL of one network."""
        early, late, _ = ranges(self.networks[network])
        return self._contrast(lambda a: a @ (early - late), [self.networks[network]])

    def of(self, kind: str, pairs: Sequence[Pair]) -> dict[str, Interval]:
        """One of these methods for every pair, by "second minus first"; NaN without seeds where one is missing."""
        return {
            f"{second} minus {first}": getattr(self, kind)((first, second))
            if first in self.networks and second in self.networks
            else UNKNOWN
            for first, second in pairs
        }

    def plateau(self, kind: str, pairs: Sequence[Pair]) -> Plateau:
        """Had the networks of these pairs reached what they can, so that `of` is a statement on their architectures?

        The loss is the smallest on validation, nats per token; the effect that decides is the smallest number that `of`
        gives, or NEAR if that is more.
        """
        known = [abs(case.value) for case in self.of(kind, pairs).values() if case.known]
        networks = list(dict.fromkeys(network for pair in pairs for network in pair))
        budgets = {run.budget for network in networks for run in self.networks.get(network, ())}
        return plateau_of(
            {str(network): [_training(run) for run in self.trainings.get(network, ())] for network in networks},
            effect=max([NEAR, min(known, default=NEAR)]),
            budget=budgets.pop() if len(budgets) == 1 else None,
        )

    def _of(self, pair: Pair, number: Any) -> Interval:
        groups = [self.networks[network] for network in pair]
        weights = ranges(groups[0])
        return self._contrast(lambda a, b: number(a, b, *weights), groups)


def _training(run: BookRun) -> Training:
    fit = FitSettings(**run.parameters["fit"])
    return Training(run.seed, fit.epochs, fit.learning_rate, min(run.result["validation_losses"]), run.version)


def neighbours(networks: Iterable[Network], architecture: str) -> list[Pair]:
    """(larger, smaller) of every two sizes of an architecture that follow one another."""
    own = [network for network in networks if network.architecture == architecture and not network.variant]
    return [(large, small) for small, large in itertools.pairwise(own)]


def nearest_early(networks: Networks) -> Pair | None:
    """The Transformer and the Mamba, of any sizes, whose early losses are nearest to each other."""
    found: tuple[float, Pair] | None = None
    for first, one in networks.items():
        for second, other in networks.items():
            if (first.architecture, second.architecture) == ("transformer", "mamba"):
                early = ranges(one)[0]
                gap = abs(float(difference(curves_of(one).mean, curves_of(other).mean, early)))
                if found is None or gap < found[0]:
                    found = gap, (first, second)
    return found[1] if found else None


def printed_order(
    places: Mapping[str, Network], comparisons: Comparisons
) -> list[tuple[str, str, float, Interval, str]]:
    """All pairs of Table F.1 that have recorded networks in their places (`roles`): the smaller printed loss first.

    Each with the printed difference, ours, and "agrees", "reversed" or "open": whether the interval and every seed of
    ours are above or below zero.
    """
    there = {name: network for name, network in places.items() if network in comparisons.networks}
    names = sorted(there, key=lambda name: PUBLISHED[name][1])
    found = []
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            ours = comparisons.mean((there[first], there[second]))
            values = [ours.low, ours.high, *ours.by_seed]
            word = "agrees" if min(values) > 0 else "reversed" if max(values) < 0 else "open"
            found.append((first, second, PUBLISHED[second][1] - PUBLISHED[first][1], ours, word))
    return found


def ideal_gain(amplitude: float, exponent: float, early: tuple[int, int], late: tuple[int, int]) -> float:
    """Mean NLL of an exact predictor over the positions of `early` minus that over `late`, nats per token.

        I_{L/2; L} = A L^beta  =>  H(L) = h L + a L^beta,  a = A / (2^(1 - beta) - 1)

    and the mean over the tokens that follow k + 1 .. l others is (H(l + 1) - H(k + 1)) / (l - k). early, late: first
    and last number of tokens seen. L2M (2025), Eq. A.4; for a stationary process. Raises ValueError unless 0 < exponent
    < 1 and each first is at most its last.
    """
    if not 0 < exponent < 1 or early[0] > early[1] or late[0] > late[1]:
        asked = "an exponent between 0 and 1 and ranges (first, last) are allowed"
        raise ValueError(f"{asked}, got {exponent!r}, {early!r} and {late!r}")
    scale = amplitude / (2.0 ** (1.0 - exponent) - 1.0)

    def mean(first: int, last: int) -> float:
        return float(scale * ((last + 1) ** exponent - first**exponent) / (last + 1 - first))

    return mean(*early) - mean(*late)


def hilberg_steps() -> tuple[sympy.Expr, sympy.Expr]:
    """I_{L/2; L} and the entropy of a token after L others, for H(L) = h L + a L^beta, in SymPy."""
    length, rate, scale, beta = sympy.symbols("L h a beta", positive=True)
    entropy = rate * length + scale * length**beta
    information = sympy.simplify(2 * entropy.subs(length, length / 2) - entropy)
    return information, sympy.expand(entropy.subs(length, length + 1) - entropy)
