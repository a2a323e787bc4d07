"""Loads a SavedModel in the TensorFlow process as TensorFlow Serving does, and runs it.

Only this module imports tensorflow, and the server never imports this module.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.process.link import RemoteFault
from ie_serving.engines.process.worker import Job, LoadedJob

WantedOutputs = Mapping[str, Mapping[str, Sequence[str]]]
"""Tensor name and `DataType` name by alias."""


def load(job: Job) -> LoadedJob:
    """Load the SavedModel of a job, and look up the tensors of its signatures.

    Raises:
        RemoteFault: with TensorFlow's text, on one line.
    """
    v1.logging.set_verbosity(v1.logging.ERROR)
    try:
        for path in job["custom_op_paths"]:
            _load_operations(path)
        session, meta_graph = open_session(job)
        objects = _objects(job, session, meta_graph)
    except (tf.errors.OpError, ValueError, KeyError, OSError, RuntimeError) as error:
        raise RemoteFault(Code.UNKNOWN, _one_line(error)) from error
    runs: list[Any] = []
    refused: dict[str, str] = {}
    defaults: dict[tuple[str, str], Array] = {}
    for name, signature in job["signatures"].items():
        try:
            call, *rest = _callable(session, signature)
            if objects is not None:
                call = _call_of(objects.signatures[name], meta_graph.signature_def[name], signature)
            runs.append(partial(_run, call, *rest))
        except (ValueError, KeyError, TypeError) as error:
            runs.append(None)
            refused[name] = _one_line(error)
            continue
        given = meta_graph.signature_def[name]
        for alias, value in _defaults(session, signature["inputs"], given).items():
            defaults[name, alias] = value
    found = {"refused": refused, "defaults": list(defaults)}
    return LoadedJob(lambda number, tensors: runs[number](tensors), found, list(defaults.values()))


def open_session(job: Job) -> tuple[Any, Any]:
    """Load the SavedModel of a job; give its session and its graph with the signatures."""
    config = v1.ConfigProto(intra_op_parallelism_threads=job["threads"])
    config.gpu_options.allow_growth = True
    session = v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        return session, v1.saved_model.load(session, job["tags"], job["directory"])


def _load_operations(path: str) -> None:
    """Load a library of custom operations.

    Raises:
        RemoteFault: it is none of this TensorFlow.
    """
    try:
        tf.load_op_library(path)
    except (tf.errors.OpError, RuntimeError) as error:
        text = _one_line(error)
        if "undefined symbol" in text:
            text = (
                "it was built against another version: build it against this one, or install that"
                f" one ({text})"
            )
        what = f"the library of custom operations {path} does not fit TensorFlow {tf.__version__}"
        raise RemoteFault(Code.UNKNOWN, f"{what}: {text}") from error


def _objects(job: Job, session: Any, meta_graph: Any) -> Any:  # noqa: ANN401
    """Load by objects a file whose variables a session does not all restore; None for others.

    A Keras 3 model that is an attribute of a `tf.Module` has each variable under two names, of
    which the session's way restores the one that no signature reads.
    """
    if not meta_graph.HasField("object_graph_def"):
        return None
    with session.graph.as_default():
        made = [
            tf.raw_ops.VarIsInitializedOp(resource=operation.outputs[0])
            for operation in session.graph.get_operations()
            if operation.type == "VarHandleOp"
        ]
    if all(session.run(made)):
        return None
    return tf.saved_model.load(job["directory"], job["tags"])


def _call_of(function: Any, declared: Any, signature: Mapping[str, WantedOutputs]) -> Any:  # noqa: ANN401
    """Give a signature of loaded objects as a session's callable."""
    inputs, outputs = (
        [keys[name] for name, _ in wanted.values()]
        for keys, wanted in (
            ({info.name: key for key, info in declared.inputs.items()}, signature["inputs"]),
            ({info.name: key for key, info in declared.outputs.items()}, signature["outputs"]),
        )
    )

    def call(*fed: Array) -> list[Any]:
        found = function(**dict(zip(inputs, map(tf.constant, fed), strict=True)))
        return [found[key] for key in outputs]

    return call


def _callable(
    session: Any,  # noqa: ANN401
    signature: Mapping[str, WantedOutputs],
) -> tuple[Any, list[Any], list[Any]]:
    tensor = session.graph.get_tensor_by_name
    feeds = [tensor(name) for name, _ in signature["inputs"].values()]
    fetches = [tensor(name) for name, _ in signature["outputs"].values()]
    dtypes = [DataType[dtype].numpy for _, dtype in signature["outputs"].values()]
    return session.make_callable(fetches, feeds), feeds, dtypes


def _run(
    call: Any,  # noqa: ANN401
    feeds: Sequence[Any],
    dtypes: Sequence[np.dtype[Any]],
    tensors: Sequence[Array],
) -> list[Array]:
    # BF16 travels as float32 in this server; TensorFlow wants its own dtype.
    fed = [
        array.astype(feed.dtype.as_numpy_dtype) if feed.dtype == tf.bfloat16 else array
        for feed, array in zip(feeds, tensors, strict=True)
    ]
    try:
        values = call(*fed)
    except tf.errors.OpError as error:
        raise RemoteFault(error.error_code, _text(error)) from error
    except (ValueError, TypeError) as error:  # such as an array of another rank
        raise RemoteFault(Code.INVALID_ARGUMENT, str(error)) from error
    return [np.asarray(value, dtype) for value, dtype in zip(values, dtypes, strict=True)]


def _defaults(session: Any, inputs: WantedOutputs, declared: Any) -> dict[str, Array]:  # noqa: ANN401
    """Give the defaults that the signature declares, and those of PlaceholderWithDefault."""
    found: dict[str, Array] = {}
    given = getattr(declared, "defaults", {})
    for alias, (name, dtype) in inputs.items():
        operation = session.graph.get_tensor_by_name(name).op
        own = next((each for each in given if declared.inputs[each].name == name), None)
        if own is not None:
            value = tf.make_ndarray(given[own])
        elif operation.type == "PlaceholderWithDefault":
            value = session.run(operation.outputs[0])
        else:
            continue
        found[alias] = np.asarray(value, DataType[dtype].numpy)
    return found


def _text(error: tf.errors.OpError) -> str:
    """Give the runtime's own text, without the line of creation that Python adds."""
    raw = error.__context__
    return str(raw.message if isinstance(raw, tf.errors.OpError) else error.message)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:600] or type(error).__name__
