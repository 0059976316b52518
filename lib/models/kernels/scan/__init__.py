"""The scans of state space models: `selective_scan` of Mamba and `scalar_decay_scan` of Mamba2."""

from lib.models.kernels.scan.scalar import scalar_decay_scan
from lib.models.kernels.scan.selective import selective_scan

__all__ = ["scalar_decay_scan", "selective_scan"]
