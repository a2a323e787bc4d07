"""Compiled models that are kept between starts are used as they were written, or not at all."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.checked_cache import DIGESTS, CheckedCompileCache
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.compiling.threads_choice import ALIKE
from tests.unit.engines.openvino.models import copies, unary

DAMAGED = "compiled model damaged, compiled again"
ONE = np.full(4096, 1, np.float32)


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """Directory of y = x + 1."""
    return unary(tmp_path / "m" / "1", [4096], DataType.FP32, lambda x: op.add(x, op.constant(ONE)))


class Started:
    """An engine as after a start, with its compiled models under `cache`."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache

    def compile(self, version: Path) -> CompiledModel:
        options = EngineOptions(cache_dir=self.cache)
        return CheckedCompileCache(OpenVinoEngine()).compile(version, options)

    def answer(self, version: Path) -> float:
        model = self.compile(version)

        async def infer() -> Mapping[str, np.ndarray]:
            signature = model.signatures[SERVING_DEFAULT]
            return await model.infer(signature, {"x": ONE}, copies)

        number = float(asyncio.run(infer())["y"][0])
        model.close()
        return number

    def blobs(self) -> dict[Path, int]:
        files = (path for path in self.cache.rglob("*") if path.is_file())
        return {path: path.stat().st_mtime_ns for path in files}

    def overwrite(self) -> None:
        """Replace the weights by others of the same size."""
        (blob,) = self.cache.rglob("*.blob")
        content = blob.read_bytes()
        assert content.count(ONE.tobytes()) == 1
        blob.write_bytes(content.replace(ONE.tobytes(), (ONE * 1000).tobytes()))


@pytest.fixture
def started(tmp_path: Path) -> Started:
    return Started(tmp_path / "cache")


@pytest.mark.parametrize("name", [DIGESTS, ""], ids=["the digests", "the folder"])
def test_a_cache_that_cannot_be_written_is_told_once_and_not_at_each_load(
    version: Path, started: Started, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    if name:
        started.answer(version)
        (digests,) = started.cache.rglob(name)
        digests.unlink()
        digests.mkdir()
    else:
        started.cache.touch()
    for _ in range(3):
        assert started.answer(version) == 2.0
    assert caplog.text.count("compiled model not kept") == 1


def test_a_compiled_model_that_was_overwritten_is_compiled_again(
    version: Path, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    assert started.answer(version) == 2.0
    started.overwrite()
    assert started.answer(version) == 2.0
    assert caplog.text.count(DAMAGED) == 1
    assert started.answer(version) == 2.0
    assert caplog.text.count(DAMAGED) == 1


def test_one_that_is_sound_is_used_and_nothing_is_written(
    version: Path, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(ALIKE):
        assert started.answer(version) == 2.0
    before = started.blobs()
    assert len(before) == 3  # compiled, the choice of threads, and their digests
    assert started.answer(version) == 2.0
    assert started.blobs() == before
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("digests", [None, "{", "[]", '{"a": 1}'])
def test_one_without_a_digest_is_not_used(
    version: Path, started: Started, digests: str | None
) -> None:
    """As when the process ended while it was written."""
    started.answer(version)
    started.overwrite()
    (file,) = started.cache.rglob(DIGESTS)
    if digests is None:
        file.unlink()
    else:
        file.write_text(digests)
    assert started.answer(version) == 2.0


def test_one_that_is_damaged_and_cannot_be_removed_is_not_used(
    version: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.answer(version)
    started.overwrite()

    def read_only(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    assert started.answer(version) == 2.0


def test_a_version_of_another_directory_has_models_of_its_own(
    version: Path, started: Started
) -> None:
    other = version.parent / "2"
    unary(other, [4096], DataType.FP32, lambda x: op.multiply(x, op.constant(ONE * 5)))
    assert (started.answer(version), started.answer(other)) == (2.0, 5.0)
    assert len({path.parent for path in started.blobs()}) == 2
