"""The wrapper engine: base class of engines that change the compiled model of another engine."""

from collections.abc import Collection

from ie_serving.engines.base import Engine


class EngineAround:
    """Passes everything but `compile` on to `engine`. See `engines.base.Engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`."""
        return self._engine.missing(files)
