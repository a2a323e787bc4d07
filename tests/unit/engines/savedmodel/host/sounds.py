"""Files of sound. Not by TensorFlow, which starts threads once it computes: tests are forked."""

import struct

import numpy as np


def wav(samples: int, channels: int = 1, rate: int = 16_000) -> bytes:
    """A file of 16-bit samples; of its bytes a second, where they do not fit, the lower 32 bits."""
    sound = (np.sin(np.arange(samples * channels)) * 32767).astype("<i2").tobytes()
    width = 2 * channels
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * width % 2**32, width, 16)
    chunks = b"".join(
        name + struct.pack("<I", len(data)) + data
        for name, data in ((b"fmt ", form), (b"data", sound))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks
