"""Around the sample's digits: clients draw with characters, and read a word."""

import numpy as np

INK = {" ": 0, ".": 4, "o": 10, "#": 16}
"""Of a pixel, by the character that draws it; the model was trained on 0 to 16."""
ROWS, COLUMNS = 8, 8


def init_hook(ctx, **params):
    return params["names"].split(",")  # from now on ctx.global_ctx


def metadata():
    return {
        "inputs": {"drawing": {"dtype": "string", "shape": [-1, ROWS]}},
        "outputs": {
            "word": {"dtype": "string", "shape": [-1]},
            "sure": {"dtype": "bool", "shape": [-1]},
        },
    }


def preprocess(inputs, ctx):
    return {"image": np.array([pixels(rows, ctx) for rows in inputs["drawing"]], np.float32)}


def pixels(rows, ctx):
    text = b"".join(row.ljust(COLUMNS) for row in rows).decode()
    if len(text) != ROWS * COLUMNS or not INK.keys() >= set(text):
        ctx.fail("INVALID_ARGUMENT", f"draw {ROWS} rows of {COLUMNS} characters of {list(INK)}")
    return [INK[character] for character in text]


def postprocess(outputs, ctx):
    best = outputs["probabilities"].max(axis=1)
    return {"word": [ctx.global_ctx[digit] for digit in outputs["digit"]], "sure": best > 0.9}
