"""The child process of a trial load: compiles one version as its worker would, and ends.

The server's side is `engines/process/trial.py`.
"""

import os
import pickle
import resource
from contextlib import suppress
from pathlib import Path

from ie_serving.app import engine_stack
from ie_serving.core.values.codes import Code
from ie_serving.engines.process.link import RemoteFault
from ie_serving.engines.process.trial import TrialTask
from ie_serving.engines.process.worker import Job, LoadedJob
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback


def load(job: Job) -> LoadedJob:
    """Compile the version of the job; whatever the engine keeps on disk is kept for the worker."""
    os.nice(5)
    with suppress(OSError):  # /proc is mounted read-only
        # If memory runs out, the kernel ends this process before the server.
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    task: TrialTask = pickle.loads(bytes.fromhex(job["task"]))  # of this process's parent
    engine = engine_stack.engine(engine_stack.drivers(TensorFlowFallback()), task.options)
    try:
        compiled = engine.compile(task.directory, task.options)
    except Exception as error:
        if _lacks_memory(error):
            raise RemoteFault(Code.RESOURCE_EXHAUSTED, f"it found no memory: {error}") from error
        raise
    return LoadedJob(run=lambda number, tensors: (), close=compiled.close)


def _lacks_memory(error: BaseException | None) -> bool:
    """Tell whether a MemoryError is an error's cause."""
    while error and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None
