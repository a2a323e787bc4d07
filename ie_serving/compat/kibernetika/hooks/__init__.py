"""Hooks around models: an engine around an engine. What they need is imported with the first."""

from collections.abc import Collection
from pathlib import Path

from ie_serving.engines.base import CompiledModel, EngineAround, EngineOptions
from ie_serving.engines.kernels import HookOptions


class HookEngine(EngineAround):
    """`engine`, whose models have hooks around them where their options say so. See `Engine`."""

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        if options.of(HookOptions) == HookOptions():
            return self._engine.compile(directory, options)
        from ie_serving.compat.kibernetika.hooks.opening import opened

        return opened(self._engine, directory, options)


class ChainEngine(EngineAround):
    """`engine` for a chain, whose models do not lie in the version. See `Engine`."""

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`: what a chain lacks, its load tells."""
        return None

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        return self._engine.compile(directory, options)
