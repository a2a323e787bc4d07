"""Train a decision tree on a table of words, and write it as skops and as ONNX.

    python make.py        (needs scikit-learn, skops and skl2onnx)

The 14 days are the well-known example of Quinlan's "Induction of Decision Trees" (1986): is it a
day to play tennis? `tennis` is the estimator itself, `tennis_onnx` the same as ONNX.
"""

from pathlib import Path

import numpy as np
import skl2onnx
import skops.io
from skl2onnx.common.data_types import StringTensorType
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

DAYS = """\
sunny hot high weak no
sunny hot high strong no
overcast hot high weak yes
rain mild high weak yes
rain cool normal weak yes
rain cool normal strong no
overcast cool normal strong yes
sunny mild high weak no
sunny cool normal weak yes
rain mild normal weak yes
sunny mild normal strong yes
overcast mild high strong yes
overcast hot normal weak yes
rain mild high strong no
"""
"""Outlook, temperature, humidity, wind, and whether tennis was played."""


def main() -> None:
    table = np.array([day.split() for day in DAYS.splitlines()], object)
    x, played = table[:, :-1], table[:, -1].astype(str)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(x, played)

    for name in ("tennis", "tennis_onnx"):
        Path(f"models/{name}/1").mkdir(parents=True, exist_ok=True)
    skops.io.dump(model, "models/tennis/1/tennis.skops")

    types = [("x", StringTensorType([None, x.shape[1]]))]
    plain = {id(model): {"zipmap": False}}  # probabilities as a matrix, not as a list of maps
    converted = skl2onnx.to_onnx(model, initial_types=types, options=plain)
    Path("models/tennis_onnx/1/tennis.onnx").write_bytes(converted.SerializeToString())


if __name__ == "__main__":
    main()
