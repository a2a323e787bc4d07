"""What kernels of IBM EDI import as `redhareapi`: their base class, and what they are given.

Source: the documented methods, and those that published samples and the local stand-in use.
"""

import logging
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

log = logging.getLogger("ie_serving.kernel")

LEVELS: Final = {-1: logging.DEBUG, 0: logging.INFO, 1: logging.WARNING, 2: logging.ERROR}


class KernelContext:
    """What `on_kernel_start` is given.

    Args of the constructor:
        instance: name of the kernel that runs.
        description: JSON.
    """

    def __init__(self, instance: str, description: str) -> None:
        self._instance = instance
        self._description = description

    def get_instance_id(self) -> str:
        """Name this kernel among all."""
        return self._instance

    get_id = get_instance_id

    def get_model_description(self) -> str:
        """Give the package's description as JSON."""
        return self._description


class TaskContext:
    """One task, in a chain with those of the same batch.

    Args of the constructor:
        task_id: id of the request.
        data: body of the request.
        model, version: name of the kernel's model, and its version.

    Attributes:
        output: the reply; None before there is one.
        failure: code and text of an error instead.
    """

    def __init__(self, task_id: str, data: str, model: str, version: str) -> None:
        self._id = task_id
        self._data = data
        self._model = model
        self._version = version
        self._next: TaskContext | None = None
        self._prev: TaskContext | None = None
        self.output: bytes | None = None
        self.failure: tuple[str, str] | None = None

    def follow(self, before: "TaskContext") -> None:
        """Stand behind another one in the chain."""
        self._prev, before._next = before, self

    def next(self) -> "TaskContext | None":
        """Give the next task of the batch; None behind the last."""
        return self._next

    def prev(self) -> "TaskContext | None":
        """Give the task before; None before the first."""
        return self._prev

    def get_input_data(self) -> str:
        """Give the body of the request."""
        return self._data

    # EDI's stand-in has both; here nothing comes beside the body.
    get_input_data_extend = get_input_data

    def set_output_data(self, data: str) -> None:
        """Reply.

        Raises:
            TypeError: `data` is no text.
        """
        if not isinstance(data, str | bytes):
            raise TypeError(
                f"set_output_data takes a text, and {type(data).__name__} was given: write it as"
                " JSON, by json.dumps"
            )
        self.output = data.encode() if isinstance(data, str) else data

    set_output_data_extend = set_output_data

    def report_ready(self, data: str) -> None:
        """Reply, and say that the task is done."""
        self.set_output_data(data)

    def fail(self, text: str, code: str = "INTERNAL") -> None:
        """Answer with an error; EDI itself has no such method."""
        self.failure = (code, text)

    def get_id(self) -> str:
        """Name the task."""
        return self._id

    # A request is a task, a job and a session of its own here.
    get_uuid = get_id
    get_job_id = get_id
    get_session_id = get_id

    def get_version(self) -> str:
        """Give the version of the model."""
        return self._version

    def get_model_name(self) -> str:
        """Give the name of the model, as it is served."""
        return self._model


class Kernel:
    """Base class of kernels."""

    def on_kernel_start(self, kernel_context: KernelContext) -> None:
        """Load; called once, before any task."""

    def on_task_invoke(self, task_context: TaskContext) -> None:
        """Answer a chain of tasks."""
        raise NotImplementedError("a kernel must define on_task_invoke")

    def on_kernel_shutdown(self) -> None:
        """Clean up; called once, at the end."""

    def run(self) -> None:
        """Do nothing: the server finds the class in the file, and runs it."""

    @staticmethod
    def log(level: int, message: object) -> None:
        """Log at level -1 (debug), 0 (info), 1 (warning) or 2 (error)."""
        log.log(LEVELS.get(level, logging.INFO), str(message))

    @staticmethod
    def log_debug(message: object) -> None:
        """Log at level DEBUG."""
        log.debug(str(message))

    @staticmethod
    def log_info(message: object) -> None:
        """Log at level INFO."""
        log.info(str(message))

    @staticmethod
    def log_warn(message: object) -> None:
        """Log at level WARNING."""
        log.warning(str(message))

    @staticmethod
    def log_error(message: object) -> None:
        """Log at level ERROR."""
        log.error(str(message))


def shims(environment: Mapping[str, str]) -> Mapping[str, ModuleType]:
    """Make the modules that one kernel's own files import in place of EDI's.

    `os` is among them, with an environment of the kernel's own, where several kernels share a
    process; without variables it is the process's.
    """
    api, version = ModuleType("redhareapi"), ModuleType("redhareapiversion")
    vars(api).update(Kernel=Kernel, KernelContext=KernelContext, TaskContext=TaskContext)
    own_os = _os_with(environment) if environment else {}
    return {"redhareapi": api, "redhareapiversion": version, **own_os}


def _os_with(environment: Mapping[str, str]) -> Mapping[str, ModuleType]:
    own: dict[str, str] = {**os.environ, **environment}

    def getenv(key: str, default: Any = None) -> Any:  # noqa: ANN401 (as `os.getenv`)
        return own.get(key, default)

    made = ModuleType("os")
    vars(made).update({**vars(os), "environ": own, "getenv": getenv})
    return {"os": made, "os.path": os.path}
