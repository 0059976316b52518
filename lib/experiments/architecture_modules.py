"""Which modules decide what a network of each architecture computes."""

from __future__ import annotations

SCANNED = ["block", "causal_convolution", "causal_convolution_cpu", "fast_exponential", "mamba", "shared_work"]
SELECTIVE = ["selective_scan", "selective_scan_autograd", "selective_scan_cpu", "selective_scan_torch"]

MODULES = {
    "rnn": ["recurrent"],
    "lstm": ["recurrent"],
    "transformer": [
        "attention",
        "attention_patterns",
        "block",
        "causal_attention",
        "causal_attention_cpu",
        "fast_exponential",
        "key_value_cache",
        "shared_work",
    ],
    "relu_ssm": ["recurrent", "relu_networks"],
    "relu_rnn": ["recurrent", "relu_networks"],
    "mamba": [*SCANNED, *SELECTIVE],
    "mamba2": [*SCANNED, *SELECTIVE, "mamba2", "scalar_decay_scan"],  # mamba2 starts as mamba does
}


def architecture_modules(architecture: str) -> list[str]:
    """Full names of these modules. Raises ValueError for an architecture that no experiment trains."""
    if architecture not in MODULES:
        raise ValueError(f"architecture: one of {', '.join(MODULES)} is allowed, got {architecture!r}")
    return [f"lib.models.{name}" for name in MODULES[architecture]]
