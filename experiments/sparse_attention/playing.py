"""The gradient over distance for a pattern of attention, a number of attended states and an eigenvalue to choose."""

from __future__ import annotations

import altair as alt
import numpy as np
from numpy.typing import NDArray

from lib.report.figures.interactive import Playable, choice, chosen, logarithmic, readout, slider, told_apart
from lib.theory import sparse_attention_gradient
from lib.theory.attention import paths

KAPPAS = (1, 2, 4, 8)
EIGENVALUES = np.arange(1, 11) / 10
CURVES = ("gradient", "bound")  # the bound is that by the shortest path
SIZES = (18, 65)  # of their points: where both are equal, one is seen inside the other
LOWEST, HIGHEST = 1e-14, 1e10
OUT_OF_SIGHT = 1e-300  # a logarithmic axis has no place for what is smaller, and becomes zero


def patterns(length: int, t: int, kappa: int, seed: int = 0) -> dict[str, paths.Pattern]:
    """Patterns in which no state attends to more than kappa others, but the tree, whose largest number is its own."""
    return {
        "window": paths.window(length, kappa),
        "random": paths.random_sparse(length, kappa, seed),
        "hub and window": paths.hubs(length, [t], kappa - 1),
        "tree": paths.dyadic_tree(length),
        "no attention": paths.no_attention(length),
    }


def sparse(t: int = 4, longest: int = 300, seed: int = 0) -> Playable:
    """p_{0:k}(lambda) against k, and the bound lambda^s' kappa^-(s'+1) by a shortest path of s' recurrent steps.

    Both are points: from one distance to the next they may jump by powers of ten, as those of the tree do. t: time of
    the early state. longest: largest k. seed: of the random pattern. Cost O(longest kappa) for each of 200 settings.
    """
    steps = distances(longest)
    names = list(patterns(t + longest, t, 1, seed))
    pattern = choice("pattern", "pattern", names, names[2])
    most = choice("kappa", "attended states κ", KAPPAS, 2)
    eigenvalue = slider("eigenvalue", "eigenvalue λ", EIGENVALUES, 0.4)
    settings = (pattern, most, eigenvalue)
    drawn = [list(patterns(t + longest, t, kappa, seed).values()) for kappa in KAPPAS]
    values = np.array([[curves(attended, t, steps) for attended in kinds] for kinds in drawn])
    # (kappas, patterns, eigenvalues, curves, steps)
    words = [[_said(name, attended, t, longest, ends) for name, attended, ends in zip(names, kinds, row, strict=True)]
             for kinds, row in zip(drawn, values[..., -1], strict=True)]  # fmt: skip
    grid = {"kappa": np.array(KAPPAS)[:, None, None], "pattern": np.array(names)[:, None], "eigenvalue": EIGENVALUES}
    seen = ((values >= LOWEST) & (values <= HIGHEST)).any(axis=-2)  # one of both is in the picture
    table = {name: column[..., None] for name, column in grid.items()}
    both = dict(zip(CURVES, np.moveaxis(np.maximum(values, OUT_OF_SIGHT), -2, 0), strict=True))
    rows = {name: np.broadcast_to(column, seen.shape)[seen] for name, column in {**table, "k": steps, **both}.items()}
    points = chosen(rows, *settings).transform_fold(list(CURVES), as_=["curve", "p"])
    chart = points.mark_point(clip=True, aria=False, strokeWidth=1.5, opacity=1).encode(
        x=alt.X("k:Q", title="distance k (steps)", scale=alt.Scale(domain=[0, longest], nice=False, padding=5)),
        y=alt.Y("p:Q", title="gradient p(λ)", **logarithmic(LOWEST, HIGHEST, ".0e")),
        size=alt.condition(f"datum.curve == '{CURVES[0]}'", *map(alt.value, SIZES)),
        **told_apart("curve", CURVES, points=True),
    )
    return Playable((chart + readout({**grid, "text": words}, *settings)).properties(width=470, height=280), *settings)


def distances(longest: int, count: int = 36) -> NDArray[np.int64]:
    """Distances k, closer at first, where small eigenvalues are still in the picture: 0, the longest, up to `count`."""
    return np.unique((longest * np.linspace(0, 1, count) ** 1.5).round().astype(np.int64))


def curves(attended: paths.Pattern, t: int, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Gradients and their bounds: shape (eigenvalues, 2, steps)."""
    depths = paths.dependency_depth(attended, t, steps)
    gradients = np.array([sparse_attention_gradient(value, attended, t, steps) for value in EIGENVALUES])
    bounds = paths.path_bound(EIGENVALUES[:, None], float(paths.largest_attention(attended)), depths)
    return np.stack([gradients, bounds], axis=1)


def _said(name: str, attended: paths.Pattern, t: int, longest: int, ends: NDArray[np.float64]) -> list[str]:
    """The numbers at the longest distance in words, for each eigenvalue."""
    depth, most = int(paths.dependency_depth(attended, t, longest)), paths.largest_attention(attended)
    head = f"{name}, κ = {most}, {depth} recurrent step{'s' * (depth != 1)} on a shortest path; \n"
    return [
        f"{head}λ = {eigenvalue:.1f}: gradient at k = {longest} {_power(gradient)}, at least {_power(bound)}"
        for eigenvalue, (gradient, bound) in zip(EIGENVALUES, ends, strict=True)
    ]


def _power(value: float) -> str:
    return f"{value:.1e}".replace("-", "−")
