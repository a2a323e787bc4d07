"""Writes y = x w + b as PyTorch's own files, with what PyTorch answers. Run as a program.

`linear.pt2` is made by `torch.export`, `linear.pt` is TorchScript, `expected.npy` the answer.
`voice.pt` keeps state; `voice.npy` has its answers to two equal calls. `reader.pt` takes and gives
structures; `reader.npy` has its answer. In a process of its own, since PyTorch aborts beside
TensorFlow.
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


class Voice(torch.nn.Module):
    """Adds up what it hears, at one rate, as modules of speech are written ("silero_vad.jit")."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear()
        self.register_buffer("heard", torch.zeros(2))

    def forward(self, x: torch.Tensor, rate: int) -> torch.Tensor:
        """Compute a frame."""
        if rate != 16000:
            raise ValueError("the rate is not supported")
        self.heard = 0.5 * self.heard + 0.01 * self.linear(x).sum(0)
        return torch.tanh(self.heard) + torch.zeros(x.shape[0], 2)


class Reader(torch.nn.Module):
    """Takes and gives texts, numbers, tuples and dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 2, batch_first=True)

    def forward(
        self, x: torch.Tensor, hc: tuple[torch.Tensor, torch.Tensor], texts: list[str], k: int = 1
    ) -> dict[str, tuple[torch.Tensor, list[str], int]]:
        """Compute a step."""
        y, _ = self.lstm(x, hc)
        return {"read": (y * k, [text.upper() for text in texts], len(texts))}


def main(directory: Path) -> None:
    """Write the files."""
    linear = Linear().eval()
    rows = ({0: torch.export.Dim("rows")},)
    program = torch.export.export(linear, (torch.zeros(2, 3),), dynamic_shapes=rows)
    torch.export.save(program, directory / "linear.pt2")
    torch.jit.trace(linear, torch.zeros(1, 3)).save(str(directory / "linear.pt"))
    torch.jit.script(Voice().eval()).save(str(directory / "voice.pt"))
    torch.manual_seed(1)
    reader, states = Reader().eval(), torch.ones(2, 1, 1, 2)
    torch.jit.script(reader).save(str(directory / "reader.pt"))
    with torch.inference_mode():
        y = reader(torch.ones(1, 4, 3), (states[0], states[1]), ["a"], 3)["read"][0]
    np.save(directory / "reader.npy", y.numpy())
    voice, x = torch.jit.load(str(directory / "voice.pt")), torch.tensor([[0.0, 1, 2], [3, 4, 5]])
    with torch.inference_mode():
        np.save(directory / "expected.npy", linear(x).numpy())
        np.save(directory / "voice.npy", np.stack([voice(x, 16000).numpy() for _ in range(2)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
