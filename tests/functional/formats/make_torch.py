"""Writes y = x w + b as PyTorch's own files, with what PyTorch answers. Run as a program.

`linear.pt2` is made by `torch.export`, `linear.pt` is TorchScript, `expected.npy` the answer. In a
process of its own, since PyTorch aborts beside TensorFlow.
"""

import sys
from pathlib import Path

import numpy as np
import torch


class Linear(torch.nn.Module):
    """Two columns out of three."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        self.b = torch.nn.Parameter(torch.tensor([0.5, -0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute y."""
        return x @ self.w + self.b


def main(directory: Path) -> None:
    """Write the three files."""
    linear = Linear().eval()
    rows = ({0: torch.export.Dim("rows")},)
    program = torch.export.export(linear, (torch.zeros(2, 3),), dynamic_shapes=rows)
    torch.export.save(program, directory / "linear.pt2")
    torch.jit.trace(linear, torch.zeros(1, 3)).save(str(directory / "linear.pt"))
    with torch.inference_mode():
        np.save(directory / "expected.npy", linear(torch.tensor([[0.0, 1, 2], [3, 4, 5]])).numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
