"""Entropy and mutual information: estimators, pair counting, Gaussian closed forms, fits of decay. All in nats."""

from lib.information.decay.fits import compare_fits, fit_exponential, fit_power_law
from lib.information.estimators import entropy
from lib.information.gaussian import bipartite_mutual_information, gaussian_mutual_information
from lib.information.model_estimates import direct_estimate, vclub_estimate
from lib.information.two_point import (
    auto_mutual_information,
    mutual_information,
    pair_counts,
)

__all__ = [
    "auto_mutual_information",
    "bipartite_mutual_information",
    "compare_fits",
    "direct_estimate",
    "entropy",
    "fit_exponential",
    "fit_power_law",
    "gaussian_mutual_information",
    "mutual_information",
    "pair_counts",
    "vclub_estimate",
]
