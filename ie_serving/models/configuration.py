"""The configuration of one model.

`config/schema/` declares how each setting is read, and its name in each dialect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ie_serving.engines.base import EngineOptions
from ie_serving.models.repository.version_policy import Latest, VersionPolicy


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph of models, or another version of one file, that stands in the configuration."""

    text: str
    """What its file would hold."""

    version: int = 1

    file: str = "graph.json"
    """Name of that file; another one is no graph, but a pipeline of Konduit or a chain of
    kibernetika-serving."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One model: where its versions lie, which are served, and how they are compiled."""

    name: str
    base_path: str
    version_policy: VersionPolicy = field(default_factory=Latest)
    version_labels: Mapping[str, int] = field(default_factory=dict)
    engine: EngineOptions = field(default_factory=EngineOptions)

    poll_wait_s: float | None = None
    """0 never lists again; None takes the server's."""

    ready_marker: str = ""
    """Empty: a version needs no marker file."""

    graph: "Graph | None" = None
    """A graph that stands in the configuration itself; there is no repository."""

    platform: str = ""
    """TensorFlow Serving's `model_platform`; empty where the configuration does not set it."""
