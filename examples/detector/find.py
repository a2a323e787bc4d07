"""Finds separate drawings on a page: the detector of the graph, a kernel in Python."""

import numpy as np

INK = 224
"""Pixels darker than this are ink."""


class Find:
    """Cuts a page at its white columns, then each part at its white rows, and gives squares."""

    def metadata(self):
        return {
            "inputs": {"pixels": {"dtype": "uint8", "shape": [-1, -1, 1]}},
            "outputs": {"boxes": {"dtype": "float32", "shape": [-1, 4]}},
        }

    def execute(self, inputs, ctx):
        ink = inputs["pixels"][:, :, 0] < INK
        height, width = ink.shape
        boxes = []
        for left, right in runs(ink.any(axis=0)):
            for top, bottom in runs(ink[:, left:right].any(axis=1)):
                columns = np.flatnonzero(ink[top:bottom, left:right].any(axis=0))
                centre = left + (columns[0] + columns[-1] + 1) / 2
                half = (bottom - top) / 2
                boxes.append([centre - half, top, centre + half, bottom])
        shares = np.reshape(boxes, (-1, 4)) / [width, height, width, height]
        return {"boxes": shares.clip(0, 1).astype(np.float32)}


def runs(marked):
    """Give the beginning and the end of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(np.int8), [0]])))
    return edges.reshape(-1, 2).tolist()
