# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's users change one import for: `from stoker.torch import DataLoader`."""
from stoker.torch._loader import DataLoader

__all__ = ["DataLoader"]
