"""Records of networks that write, sorted by network, with what statements and figures ask of their curves."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from lib.information import fit_exponential
from lib.information.decay.weighted import weighted_fit
from lib.information.intervals import Interval
from lib.models.catalogue import NAMES
from lib.report.gate import Training, usual_budget
from lib.runs.definition import Experiment
from lib.training import FitSettings

Record = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
Band = tuple[int, int]
SHORT, MIDDLE, LONG = (1, 9), (10, 50), (51, 1000)  # distances in characters: words, sentences, paragraphs
FAR = (500, 1000)  # where a tail has become a constant, if it does
FLOOR = 2e-3  # nats: Shen (2019) fits the points above it in Fig. 8 and 10
FEWEST_POINTS = 3  # of that fit


@dataclass(frozen=True, order=True)
class Network:
    """What was trained, but for the seed."""

    level: str
    text: str
    architecture: str
    depth: int
    width: int
    words: int = 0  # in the vocabulary at most, 0 at the level of characters

    def __str__(self) -> str:
        size = f"{self.width}" if self.depth == 1 else f"{self.width}×{self.depth}"
        return f"{NAMES[self.architecture]} {size}"


@dataclass(frozen=True)
class WrittenRun:
    """One record of a network that has written; what is measured is computed when it is first asked for."""

    network: Network
    seed: int
    training: Training
    result: Mapping[str, Any]

    @property
    def loss(self) -> float:
        """Smallest validation loss, nats per character."""
        return self.training.loss

    @cached_property
    def lags(self) -> npt.NDArray[np.int64]:
        return np.array(self.result["lags"], dtype=np.int64)

    def curves(self, whose: str) -> Floats:
        """Information of "written" or "read" text less its floor, nats: the estimate, then its replicates (n, lags)."""
        kept = self.result[whose]
        found = np.vstack([kept["curve"], *kept["replicates"]])
        return np.asarray(found - np.array(kept["floor"]), dtype=np.float64)

    def within(self, band: Band) -> npt.NDArray[np.bool_]:
        return np.asarray((self.lags >= band[0]) & (self.lags <= band[1]))

    def mean(self, whose: str, band: Band) -> Interval:
        """Mean information over the lags of a band, floor taken off, nats."""
        return spread(self.curves(whose)[:, self.within(band)].mean(axis=1))

    def ratio(self, band: Band) -> Interval:
        """Mean information of the written text in a band over that of the text read; NaN where that has none."""
        written, read = (self.curves(whose)[:, self.within(band)].mean(axis=1) for whose in ("written", "read"))
        if not self.mean("read", band).low > 0:
            return Interval(np.nan, np.nan, np.nan)
        return spread(written / read)

    def geometric_ratio(self, band: Band) -> float:
        """Geometric mean over a band of the written over the read information at each lag, as a logarithmic plot shows.

        `ratio` is that of the means, decided by the lags with most information; here all count alike. 0 where the
        written text has nothing above the floor at some lag; NaN where the text read has nothing with its interval.
        """
        written, read = (self.curves(whose)[:, self.within(band)] for whose in ("written", "read"))
        if not all(spread(of_lag).low > 0 for of_lag in read.T):
            return np.nan
        if not (written[0] > 0).all():
            return 0.0
        return float(np.exp(np.log(written[0] / read[0]).mean()))

    def levelling(self) -> Interval:
        """Mean information over 500 to 1000 over that of 100 to 499: 1 for a constant, below for a curve that falls."""
        far, near = (self.curves("written")[:, self.within(band)].mean(axis=1) for band in (FAR, (100, FAR[0] - 1)))
        if not self.mean("written", (100, FAR[0] - 1)).low > 0:
            return Interval(np.nan, np.nan, np.nan)
        return spread(far / near)

    def advantage(self, band: Band) -> Interval:
        """Chi square of a power law less that of an exponential in a band, floor off; positive for the exponential."""
        some, curves = self.within(band), self.curves("written")
        sigma = np.maximum(curves[1:, some].std(axis=0, ddof=1), 1e-12)
        power, exponential = (
            weighted_fit(self.lags[some], curves[:, some], sigma, law).chi_square for law in ("power", "exponential")
        )
        return spread(power - exponential)

    def law(self, band: Band) -> float:
        """The law nearer in a band, where the interval of `advantage` tells: 1 exponential, -1 power law, else 0."""
        found = self.advantage(band)
        return float(found.sign) if found.known else np.nan

    def correlation_length(self, whose: str = "written") -> float:
        """xi of an exponential through the points above 2e-3 nats, as estimated (Fig. 8, 10); NaN with fewer than 3."""
        curve = np.array(self.result[whose]["curve"], dtype=np.float64)
        if np.count_nonzero(curve > FLOOR) < FEWEST_POINTS:
            return np.nan
        return fit_exponential(self.lags, curve, floor=FLOOR).correlation_length

    @cached_property
    def half_distance(self) -> float:
        """First distance at which the written text has less than half of the information of what was read.

        Interpolated in the logarithm of the distance; the largest distance where that never happens.
        """
        written, read = self.curves("written")[0], self.curves("read")[0]
        known = np.flatnonzero(
            self.curves("read")[1:].std(axis=0, ddof=1) * 2 < read
        )  # lags at which there is something
        share = written[known] / read[known]
        below = np.flatnonzero(share < 0.5)
        if not below.size:
            return float(self.lags[known[-1]]) if known.size else np.nan
        at = int(below[0])
        if at == 0:
            return float(self.lags[known[0]])
        x, y = np.log(self.lags[known[at - 1 : at + 1]]), share[at - 1 : at + 1]
        return float(np.exp(np.interp(0.5, y[::-1], x[::-1])))


Runs = Sequence[WrittenRun]


def spread(values: Floats) -> Interval:
    """The first value with a 95 % interval from the standard deviation of the others, its replicates."""
    replicates = values[1:]
    reach = float(stdtrit(len(replicates) - 1, 0.975) * replicates.std(ddof=1))
    return Interval(float(values[0]), float(values[0]) - reach, float(values[0]) + reach, form=".2f")


def written_runs(records: Iterable[Record]) -> dict[Network, Runs]:
    """Records by network, with all budgets and rates; those that diverged before they could write are left out."""
    found: dict[Network, list[WrittenRun]] = {}
    for record in records:
        asked, result = record["parameters"], record["result"]
        if "written" in result:
            fit = FitSettings(**asked["fit"])
            loss = min(result["validation_losses"]) * result["tokens_per_character"][1]
            training = Training(record["seed"], fit.epochs, fit.learning_rate, loss, record.get("version", 0))
            network = network_of(asked)
            found.setdefault(network, []).append(WrittenRun(network, record["seed"], training, result))
    return {network: sorted(found[network], key=lambda run: run.training) for network in sorted(found)}


def network_of(asked: Mapping[str, Any]) -> Network:
    """Which network a run is of, from its parameters."""
    words = asked["words"] if asked["level"] == "word" else 0
    return Network(asked["level"], asked["text"], asked["architecture"], asked["depth"], asked["width"], words)


def planned(name: str, profile: str, fewest: int = 3) -> frozenset[Network]:
    """Networks that a profile trains from so many seeds: those that statements are about."""
    seeds: dict[Network, set[int]] = {}
    for run in Experiment(name).runs(profile):
        asked = importlib.import_module(run.module).Parameters.read(run.parameters, name).model_dump()
        seeds.setdefault(network_of(asked), set()).add(run.seed)
    return frozenset(network for network, some in seeds.items() if len(some) >= fewest)


def usual(runs: Runs) -> Runs:
    """The seeds of the budget that most runs of a network have."""
    if not runs:
        return []
    budget = usual_budget([run.training for run in runs])
    return [run for run in runs if (run.training.epochs, run.training.rate) == budget]
