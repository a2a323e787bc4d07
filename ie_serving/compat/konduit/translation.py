"""Translates a file of Konduit to a configuration of ours, for `ie_serving config import`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ie_serving.compat.konduit.config_file import KEY, is_konduit, steps_of
from ie_serving.compat.konduit.pipeline.definition import PYTHON
from ie_serving.config.dialects.importing import MODELS, Translated, entry
from ie_serving.config.files import source


def translated(path: Path, top: Mapping[str, Any]) -> Translated | None:
    """Give the configuration; None for any other file."""
    if not is_konduit(top):
        return None
    found = source.read(path)
    *models, default = found.models
    assert default.graph is not None  # the pipeline comes last
    pipeline = json.loads(default.graph.text)
    notes = [*found.warnings]
    if found.rest_port:
        notes.append(f"port: give --rest_port {found.rest_port}")
    if any(step["@type"] == PYTHON for step in steps_of(pipeline)):
        notes.append("steps of type PYTHON run: give --allow_python")
    return {MODELS: [entry(model, {}) for model in models], KEY: pipeline}, notes
