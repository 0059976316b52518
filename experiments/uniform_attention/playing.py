"""The gradient over distance for an eigenvalue that a reader chooses in the disc."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from lib.report.figures import styles
from lib.report.figures.interactive import Playable, chosen, logarithmic, readout, slider, told_apart
from lib.theory.attention import forms
from lib.theory.attention.uniform import log_magnitude

MODULI = np.arange(20) / 20
ANGLES = np.arange(0, 181, 30)  # degrees; below the real line all is the mirror image
ANCHOR = 100  # the time at which the printed power is drawn through the gradient
LOWEST, HIGHEST = 1e-8, 1e8
CURVES = ("gradient", "printed power", "proved power")
LOOKS = tuple(styles(len(CURVES)))


def eigenvalues() -> NDArray[np.complex128]:
    """The disc on a grid: shape (moduli, angles)."""
    return np.asarray(MODULI[:, None] * np.exp(1j * np.deg2rad(ANGLES)))


def times(t: int, longest: int, count: int = 40) -> NDArray[np.int64]:
    """Times T = t + k, evenly on a logarithmic axis, the anchor, half of the longest and the longest among them."""
    spread = np.geomspace(t + 1, longest, count).round().astype(np.int64)
    return np.unique([*spread, ANCHOR, longest // 2, longest])


def measured_exponents(t: int, longest: int) -> NDArray[np.float64]:
    """Exponent of T in |p_{0:k}| between half of the longest time and the longest: shape (moduli, angles)."""
    ends = np.array([longest // 2, longest])
    logarithms = log_magnitude(eigenvalues()[..., None], t, ends - t)
    return np.asarray(np.diff(logarithms)[..., 0] / np.diff(np.log(ends)))


def disc(t: int = 2, longest: int = 10_000) -> Playable:
    """|p_{0:k}(lambda)| against T, with the printed power of T and the proved one drawn through T = 100.

    Sliders choose modulus and angle of lambda; beside stands where it lies in the disc. Cost O(longest) for each of
    140 eigenvalues.
    """
    modulus = slider("modulus", "modulus |λ|", MODULI, 0.5)
    angle = slider("angle", "angle of λ (degrees)", ANGLES, 0)
    settings = (modulus, angle)
    z = eigenvalues()
    grid: dict[str, Any] = {"modulus": MODULI[:, None], "angle": ANGLES}
    exponents = [measured_exponents(t, longest), forms.exponent(z), forms.printed_exponent(z)]
    words = [f"λ = {_named(x)}; \nexponent measured {m:.3f}, proved {p:.3f}, printed {e:.3f}".replace("-", "−")
             for x, m, p, e in zip(z.flat, *map(np.ravel, exponents), strict=True)]  # fmt: skip
    said = readout({**grid, "text": np.reshape(words, z.shape)}, *settings)
    at = {
        "x": alt.X("T:Q", title="time T = t + k (steps)", **logarithmic(t, longest)),
        "y": alt.Y("size:Q", title="gradient |p(λ)|", **logarithmic(LOWEST, HIGHEST, ".0e")),
    }
    exact, powers = (chosen(table, *settings) for table in gradients(t, longest))
    points = exact.mark_point(clip=True, aria=False, size=22, filled=True, opacity=1)
    lines = powers.mark_line(clip=True, aria=False).encode(**at, **told_apart("curve", CURVES[1:], LOOKS[1:]))
    curves = alt.layer(lines, points.encode(**at, **told_apart("curve", CURVES[:1], points=True)))
    place = chosen({**grid, "x": z.real.round(4), "y": z.imag.round(4)}, *settings)
    own = dict.fromkeys(("color", "shape", "strokeDash"), "independent")  # points and lines have a legend each
    drawn = curves.resolve_scale(**own).properties(width=330, height=240)
    return Playable(alt.concat(_map(place) + said, drawn, columns=2, bounds="flush", spacing=85), *settings)


def gradients(t: int, longest: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The gradient of all eigenvalues at all times, and the ends of both powers: modulus, angle, curve, T and size."""
    z, T = eigenvalues(), times(t, longest)
    exact = log_magnitude(z[..., None], t, T - t)  # (moduli, angles, times)
    anchor = exact[..., T == ANCHOR]
    ends = T[[0, -1]]  # two points make a line of a power
    lines = [
        anchor + rate[..., None] * np.log(ends / ANCHOR) for rate in (forms.printed_exponent(z), forms.exponent(z))
    ]
    grid = {"modulus": MODULI[:, None, None], "angle": ANGLES[:, None]}
    names = np.array(CURVES)[:, None, None, None]
    return {**grid, "curve": CURVES[0], "T": T, "size": np.exp(exact)}, {
        **grid,
        "curve": names[1:],
        "T": ends,
        "size": np.exp(lines),
    }


def _map(place: alt.Chart) -> alt.LayerChart:
    turn = np.linspace(0, 2 * np.pi, 60)
    centres = {"unit circle": (0.0, 1.0), "faster than 1/T outside": (0.5, 0.5), "growth inside": (0.75, 0.25)}
    circles: dict[str, Any] = {
        "circle": np.array(list(centres))[:, None],
        "turn": turn,
        "x": np.array([[c + r * np.cos(turn)] for c, r in centres.values()])[:, 0].round(3),
        "y": np.array([[r * np.sin(turn)] for _, r in centres.values()])[:, 0].round(3),
    }
    axis = {"scale": alt.Scale(domain=[-1, 1]), "axis": alt.Axis(values=[-1, 0, 1])}
    at = {"x": alt.X("x:Q", title="Re λ", **axis), "y": alt.Y("y:Q", title="Im λ", **axis)}
    drawn = chosen(circles).mark_line(aria=False, strokeWidth=1).encode(**at, detail="circle:N", order="turn:Q",
                                                                       color=alt.value("#444444"))  # fmt: skip
    labels: dict[str, list[float] | list[str]] = {
        "x": [-0.42, 0.45, 0.75],
        "y": [0.3, 0.3, 0.0],
        "word": ["faster than 1/T", "slower", "grows"],
    }
    named = chosen(labels).mark_text(aria=False, fontSize=11).encode(**at, text="word:N")
    point = place.mark_point(size=90, filled=True, opacity=1, aria=False).encode(**at, color=alt.value("#C8500A"))
    return (drawn + named + point).properties(width=170, height=170)


def _named(z: complex) -> str:
    real, imaginary = (round(part, 9) + 0.0 for part in (z.real, z.imag))  # + 0.0 takes the sign from a zero
    return f"{real:.3g}" + (f" + {imaginary:.3g}i" if imaginary else "")
