"""Bipartite information that a trained Gaussian language model captures, and that of the sequences it draws itself.

How much of the information between two halves a model captures, where the true distribution is known.

The direct estimator (L2M, Eq. 6) needs ln q(y), the model's distribution of the second half Y without the first half X.
An autoregressive model has no such number: started afresh it says what it would say of a *first* half. Where p is
known, three quantities are well defined for every model q(y_i | y_<i, x) = q(y_i | y_<i, z), z = its state after X:

    net       E_p[ln q(Y|X) - ln p(Y)]    = I_p(X; Y) - sum_i KL_i            = sum_i (g_i - KL_i)
    captured  the same for r(y|z), which is q where that helps, else p without X  = sum_i max(g_i - KL_i, 0)
    own       I_q(X; Y), of sequences that the model itself draws, between two bounds

with i over the positions of Y, g_i = I_p(X; Y_i | Y_<i), which add up to I_p(X; Y), and KL_i of Eq. E.36. As r(y|z)
is a distribution of Y given the state, E_p[ln r(Y|z) - ln p(Y)] = I_p(Z; Y) - E KL(p(Y|z) || r(Y|z)), so that

    net <= captured <= I_p(Z; Y) <= min(I_p(X; Y), what a state of that size can hold):

the second inequality is Theorem 5.2's chain under p, and holds for `net` and `captured` of every trained model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky

from experiments.gaussians.scores import GaussianScores
from experiments.gaussians.task import draw_tokens, log_densities
from lib.checks import checked_covariance
from lib.information.gaussian import checked_split
from lib.information.model_estimates import ModelEstimate, direct_estimate
from lib.processes import HierarchicalGaussian
from lib.theory.gaussian_predictor import GaussianPredictor

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)  # of the true covariance in the reference distribution
DRAWN_TOGETHER = 2**16  # tokens; keys and values of all of them are in memory
SCORED_TOGETHER = 2**14
Floats = NDArray[np.float64]


def captured(scores: GaussianScores, law: HierarchicalGaussian) -> dict[str, Any]:
    """`net` and `captured` at the middle of the sequence, nats of all copies together."""
    half = law.length // 2
    gains = scores.copies * information_by_position(law.covariance(), half)
    found = captured_information(scores.copies * scores.divergences[:, half:], gains)
    return {
        "true_information": found.information,
        "net_information": entry(found.net),
        "captured_information": entry(found.captured),
    }


def restarted(model: Any, law: HierarchicalGaussian, n: int, seed: int, device: str) -> dict[str, Any]:
    """Eq. 6 as one would use it on text: ln q(y) of the model started afresh at the second half, on n true sequences.

    Where the two halves have different distributions this is no estimate of I even at q = p: see `restart_error`.
    """
    half = law.length // 2
    on_device = law.on_device(device)
    tokens = on_device.sample_tokens(n, model.copies, seed)
    rows = max(1, SCORED_TOGETHER // law.length)
    together = log_densities(model, tokens, rows)[:, half:].sum(axis=1)
    alone = log_densities(model, tokens[:, half:].contiguous(), rows).sum(axis=1)
    return {
        "restarted_direct": entry(direct_estimate(together, alone)),
        "restart_error": restart_error(law, model.copies),
    }


def restart_error(law: HierarchicalGaussian, copies: int) -> float:
    """KL(p_Y || p_X), nats: the excess of the restarted direct estimator with the exact distribution as model."""
    half, matrix = law.length // 2, law.covariance()
    return copies * float(
        GaussianPredictor.from_covariance(matrix[:half, :half]).divergences(matrix[half:, half:]).sum()
    )


def own_information(model: Any, law: HierarchicalGaussian, n: int, seed: int, device: str) -> OwnInformation:
    """Bounds of I_q(X; Y) from n sequences that the model draws; a third each to fit, to choose and to average.

    The reference distribution has independent copies of one covariance: the true one mixed with that of the model's
    draws (if there are enough of them) or with that of independent numbers, which is the untrained model's. The mixture
    is the one, with a share of SHARES, under which other draws are most probable. Raises ValueError for n < 6. Cost
    `length` steps of n rows, and O(length^3) for each mixture.
    """
    if n < 6:
        raise ValueError(f"n: at least 6 sequences are allowed, got {n!r}")
    half = law.length // 2
    tokens = draw_tokens(model, n, law.length, seed, device, max(1, DRAWN_TOGETHER // law.length))
    columns = tokens.double().cpu().numpy().transpose(0, 2, 1)  # (n, copies, length)
    to_fit, to_choose, averaged = (np.array(part) for part in np.array_split(np.arange(n), 3))
    reference = _reference(columns[to_fit], columns[to_choose], law.covariance())
    second = GaussianPredictor.from_covariance(reference.covariance()[half:, half:])
    measured = tokens[torch.from_numpy(averaged).to(tokens.device)]
    log_q = log_densities(model, measured, max(1, SCORED_TOGETHER // law.length))
    used = columns[averaged]
    return own_information_bounds(
        log_q[:, :half].sum(axis=1),
        log_q[:, half:].sum(axis=1),
        _log_density(reference, used),
        _log_density(second, used[:, :, half:]),
    )


def _reference(fitted: Floats, chosen: Floats, truth: Floats) -> GaussianPredictor:
    rows = fitted.reshape(-1, fitted.shape[-1])
    others = [np.eye(len(truth))]
    if len(rows) > 2 * len(truth):
        others.append(rows.T @ rows / len(rows))
    mixtures = [truth, *((1 - share) * other + share * truth for other in others for share in SHARES)]
    laws = [GaussianPredictor.from_covariance(mixture) for mixture in mixtures]
    return laws[int(np.argmax([_log_density(law, chosen).mean() for law in laws]))]


def _log_density(law: GaussianPredictor, columns: Floats) -> Floats:
    """(n, copies, length) -> (n,), all copies together."""
    rows = law.log_densities(columns.reshape(-1, columns.shape[-1])).sum(axis=1)
    return np.asarray(rows.reshape(columns.shape[:2]).sum(axis=1))


def entry(estimate: ModelEstimate) -> dict[str, float]:
    """As a record holds it."""
    return {"value": estimate.value, "standard_error": estimate.standard_error}


def information_by_position(covariance: ArrayLike, split: int | None = None) -> Floats:
    """g_i = I(X; Y_i | Y_<i) = 1/2 ln(Var[y_i | y_<i] / Var[y_i | y_<i, x]) of a Gaussian, nats, (L - split,).

    covariance (L, L); X is the first `split` variables, by default half. The g_i are >= 0 and add up to the bipartite
    information. Raises ValueError for a matrix that is not positive definite, a split outside 1 .. L - 1. O(L^3).
    """
    matrix = checked_covariance(covariance)
    cut = checked_split(split, len(matrix))
    try:
        joint, alone = (np.diagonal(cholesky(block, lower=True)) for block in (matrix, matrix[cut:, cut:]))
    except LinAlgError as error:
        raise ValueError(f"covariance: positive definite is allowed: {error}") from error
    return np.asarray(np.log(alone / joint[cut:]))


@dataclass(frozen=True)
class CapturedInformation:
    """Nats about the second half that a model has from the first; see the head of this module."""

    net: ModelEstimate
    captured: ModelEstimate
    information: float  # I_p(X; Y)


def captured_information(divergences: ArrayLike, gains: ArrayLike) -> CapturedInformation:
    """`net` and `captured` of a model from its KL at the positions of the second half.

    divergences: (n, k) nats per token, KL of the distributions given the past, of n >= 4 independent sequences. gains:
    (k,), the g_i of the same tokens. Where the model helps is decided on one half of the sequences and counted on the
    other, and the other way round, so that the decision adds no information. Raises ValueError for other shapes and
    values that are not finite. O(n k).
    """
    values, share = np.asarray(divergences, dtype=np.float64), np.asarray(gains, dtype=np.float64)
    if values.ndim != 2 or len(values) < 4 or share.shape != values.shape[1:] or share.size == 0:
        raise ValueError(
            f"divergences (n >= 4, k) and gains (k,) are allowed, got shapes {values.shape} and {share.shape}"
        )
    if not (np.isfinite(values).all() and np.isfinite(share).all()):
        raise ValueError("divergences and gains: finite values are allowed")
    kept = share - values  # (n, k): expectation g_i - KL_i
    first, second = kept[: len(kept) // 2], kept[len(kept) // 2 :]
    counted = [here @ (other.mean(axis=0) > 0.0) for here, other in ((first, second), (second, first))]
    return CapturedInformation(_average(kept.sum(axis=1)), _average(np.concatenate(counted)), float(share.sum()))


@dataclass(frozen=True)
class OwnInformation:
    """I_q(X; Y) of the distribution that a model draws from lies between these, up to their standard errors; nats."""

    lower: ModelEstimate
    upper: ModelEstimate


def own_information_bounds(
    log_q_x: ArrayLike, log_q_y_given_x: ArrayLike, log_r_joint: ArrayLike, log_r_y: ArrayLike
) -> OwnInformation:
    """Bounds of I_q(X; Y) from sequences drawn from q, with any distribution r of known joint and second half.

        lower = E_q[ln r(X|Y) - ln q(X)] <= I_q(X; Y) <= upper = E_q[ln q(Y|X) - ln r(Y)]

    (Barber and Agakov 2003, both ways); upper - lower = KL(q || r), so that both are exact at r = q. What an
    autoregressive model cannot tell, q(y), is not needed: q(x) and q(y|x) are products of its predictions. Every
    argument: (n,) nats of the same n >= 2 sequences, drawn from q; log_r_joint is ln r(x, y). r must not depend on
    these sequences. Raises ValueError for other shapes and values that are not finite. O(n).
    """
    given_y = np.asarray(log_r_joint, dtype=np.float64) - np.asarray(log_r_y, dtype=np.float64)
    return OwnInformation(direct_estimate(given_y, log_q_x), direct_estimate(log_q_y_given_x, log_r_y))


def _average(values: Floats) -> ModelEstimate:
    return ModelEstimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))
