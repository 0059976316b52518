"""Which modules decide what a network of each architecture computes."""

from __future__ import annotations

MODULES = {
    "rnn": ["recurrent"],
    "lstm": ["recurrent"],
    "transformer": ["attention", "attention_patterns", "block"],
    "mamba": [
        "mamba",
        "block",
        "causal_convolution",
        "fast_exponential",
        "selective_scan",
        "selective_scan_autograd",
        "selective_scan_cpu",
        "selective_scan_torch",
    ],
    "mamba2": ["mamba2", "block", "causal_convolution"],
}


def architecture_modules(architecture: str) -> list[str]:
    """Full names of these modules. Raises ValueError for an architecture that no experiment trains."""
    if architecture not in MODULES:
        raise ValueError(f"architecture: one of {', '.join(MODULES)} is allowed, got {architecture!r}")
    return [f"lib.models.{name}" for name in MODULES[architecture]]
