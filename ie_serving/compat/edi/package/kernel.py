"""Loads a package of IBM EDI as a version: wraps its kernel in a kernel of this server.

A package has its kernel as Python code, which takes one text and gives one: the bodies of request
and reply.
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType

from ie_serving.compat.edi import package
from ie_serving.compat.edi.package.redhareapi import Kernel as EdiKernel
from ie_serving.compat.edi.package.redhareapi import KernelContext, TaskContext, shims
from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.core.values.tensors import DataType, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.driver_params import check_known
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.engines.python import driver
from ie_serving.engines.python.context import LoadContext
from ie_serving.engines.python.kernel import Kernel
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.python.opening import OwnModules
from ie_serving.engines.python.runners import KernelCall


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a package. See `engines.drivers.LoadDirectory`."""
    check_known(options, (), "edi")
    description = package.described(directory)
    if description is None:
        raise LoadFailed(
            f"driver edi runs packages of IBM EDI: expected a {package.DESCRIPTION} with"
            f' "{package.KERNEL_PATH}"'
        )
    source = CodeSource(file=package.kernel_file(directory, description))
    own = dataclasses.replace(options.of(KernelOptions), source=source)
    return driver.load(directory, options.having(own))


INPUT, OUTPUT = "input_data", "output_data"


def opened(directory: Path, ctx: LoadContext, undone: ExitStack) -> Kernel | None:
    """Load the kernel of a package; None where the directory holds none.

    Args:
        directory: directory of the package.
        ctx: tells the model, and has a directory to write to.
        undone: forgets the modules of the kernel, whose `close` comes before.

    Raises:
        LoadFailed: there is no kernel, or several.
        Exception: whatever the kernel raises.
    """
    description = package.described(directory)
    if description is None:
        return None
    if ctx.params:
        raise LoadFailed(
            "params: a kernel of IBM EDI takes none; write them into"
            f" {package.DESCRIPTION}, as attributes"
        )
    file = package.kernel_file(directory, description)
    own = package.copied(directory, ctx)
    variables = package.environment(description, own, ctx)
    if ctx.own_process:  # where libraries and child processes see the variables as well
        os.environ.update(variables)
        os.chdir(own)
    modules = OwnModules(own, shims({} if ctx.own_process else variables))
    undone.callback(modules.close)
    kernel = _only_kernel(modules.load(own / file), file)()
    text = package.description_text(description, directory, own, ctx)
    kernel.on_kernel_start(KernelContext(package.instance_id(ctx), text))
    name = type(kernel).__name__
    return Kernel(
        name=name,
        inputs={INPUT: TensorSpec(INPUT, DataType.STRING, (), f"{INPUT}:0")},
        outputs={OUTPUT: TensorSpec(OUTPUT, DataType.STRING, (), f"{OUTPUT}:0")},
        execute_batch=partial(_execute, kernel, ctx.name, str(ctx.version or "")),
        close=kernel.on_kernel_shutdown,
    )


def _only_kernel(module: ModuleType, file: str) -> type[EdiKernel]:
    named = vars(module).values()
    classes: list[type[EdiKernel]] = [each for each in named if _is_kernel(each)]
    # One that another is made of is no kernel itself.
    found = [each for each in classes if not any(each in other.__mro__[1:] for other in classes)]
    if len(found) != 1:
        has = ", ".join(each.__name__ for each in found) or "none"
        raise LoadFailed(f"{file}: expected one class made of redhareapi.Kernel; it has {has}")
    return found[0]


def _is_kernel(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, EdiKernel) and value is not EdiKernel


def _execute(
    kernel: EdiKernel, model: str, version: str, calls: Sequence[KernelCall]
) -> list[None]:
    """Run a batch.

    Raises:
        BaseException: what the kernel raised, where a task is left without a reply. The
            caller then runs those tasks again one by one.
        ServingError: the same, where the kernel raised nothing: samples catch all exceptions.
    """
    tasks = [task for call in calls if (task := _task(call, model, version))]
    for before, after in itertools.pairwise(tasks):
        after[1].follow(before[1])
    raised: BaseException | None = None
    try:
        if tasks:
            kernel.on_task_invoke(tasks[0][1])
    except BaseException as error:
        raised = error
    answered = [_settled(*each) for each in tasks]
    if not all(answered):
        raise raised or _unanswered(kernel)
    return [None] * len(calls)


def _task(call: KernelCall, model: str, version: str) -> tuple[KernelCall, TaskContext] | None:
    body = call.inputs[INPUT].item()
    try:
        return call, TaskContext(call.ctx.request_id, body.decode(), model, version)
    except UnicodeDecodeError as error:
        call.failed(InvalidRequest(f"the body is no text in UTF-8: {error}"))
        return None


def _settled(call: KernelCall, task: TaskContext) -> bool:
    """Answer a call by its task's result; False where the task has none."""
    if call.outcome is None and task.failure is not None:
        call.fail(*task.failure)
    elif call.outcome is None and task.output is not None:
        call.reply({OUTPUT: task.output})
    return call.outcome is not None


def _unanswered(kernel: EdiKernel) -> ServingError:
    name = type(kernel).__name__
    return ServingError(
        f"kernel {name} left this task without a reply: on_task_invoke has to call"
        " set_output_data for each task of the chain; whatever it caught itself, its log may say"
    )
