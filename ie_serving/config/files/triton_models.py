"""Translates `config.pbtxt` of Triton's models, one or a repository of them, for `config import`.

Source: `model_config.proto` and "Model Repository" of Triton. What changes answers and cannot be
carried over is a fault; other fields without an equal here become notes, by their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ie_serving.config.files import source
from ie_serving.config.files.text_proto import parse_text, unread
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.hints import nearest
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.layer_options import DeclaredTensor, DeclaredTensors
from ie_serving.wire.kserve.datatypes import BY_NAME
from ie_serving.wire.protobuf import inference_messages
from ie_serving.wire.protobuf.messages import Proto

FILE: Final = "config.pbtxt"
BACKENDS: Final[Mapping[str, str]] = {
    "onnxruntime_onnx": "onnxruntime",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
}
"""Backend by platform, the older word."""
SERVED: Final = ("", "onnxruntime", "openvino", "tensorflow", "pytorch")
PYTORCH: Final = "pytorch"
ENSEMBLE: Final = "ensemble"
_UNSERVED: Final[Mapping[str, str]] = {
    "python": 'code for Triton is not run: write a kernel, "kernel" with docs/guide/own-code.md',
    "tensorrt": "engines of TensorRT run on NVIDIA's GPUs alone: serve the model as ONNX",
}
_OTHER: Final = f"served are {', '.join(SERVED[1:])} and ensembles of these"
_CARRIED: Final = {
    *("name", "platform", "backend", "version_policy", "max_batch_size", "input", "output"),
    *("instance_group", "default_model_filename", "parameters", "model_warmup"),
    *("dynamic_batching", "sequence_batching", "ensemble_scheduling"),
}
_IGNORED: Final = {
    *("format", "is_shape_tensor", "is_non_linear_format_io", "gpus", "rate_limiter"),
    *("secondary_devices", "profile", "passive", "host_policy", "direct", "oldest"),
    *("max_sequence_idle_microseconds", "iterative_sequence", "generative_sequence"),
    *("model_namespace", "max_inflight_requests"),
}
"""Names of Triton's fields within messages that the messages here do not have."""
_SKIPPED: Final = ("inference.WithoutMeaning", "inference.ModelWarmup", "inference.ModelParameter")
_OPENVINO: Final = {"NUM_STREAMS", "INFERENCE_NUM_THREADS"}
"""Parameters of Triton's OpenVINO backend that are properties of the device here as well."""
_GPU: Final = 1


class ImportedModels(NamedTuple):
    """What was read, in the form of the configuration file, and notes.

    Attributes:
        declared: the tensors of a lone model; that form has no word for them.
        unknown: those of the notes that name fields which Triton does not have either.
    """

    models: list[dict[str, Any]]
    graphs: list[dict[str, Any]]
    notes: list[str]
    declared: DeclaredTensors | None = None
    unknown: Sequence[str] = ()


def is_triton(path: Path) -> bool:
    """Return whether a path is for this module: a directory, or a file of protobuf's text."""
    return path.is_dir() or path.suffix == ".pbtxt"


def translated(path: Path) -> ImportedModels:
    """Translate a `config.pbtxt`, the directory of a model, or a repository.

    Raises:
        ConfigError: every fault.
    """
    faults = Faults()
    found = ImportedModels([], [], [])
    directories = list(_directories(path))
    if not directories:
        faults.add(
            str(path),
            f"no {FILE}, and no directory of a model with versions; name a repository of Triton",
        )
    for directory in directories:
        file = path if path.is_file() else directory / FILE
        config, text = inference_messages.ModelConfig(), ""
        if file.is_file():
            text = source.read_text(file)
            config = parse_text(text, inference_messages.ModelConfig, str(file), lenient=True)
        _Model(config, text, directory, found, faults).translate()
    faults.check()
    return found


def translated_text(text: str, place: str, name: str) -> ImportedModels:
    """Translate one `config.pbtxt` in a repository of models, whose directories name them.

    Args:
        text: its content.
        place: place named in faults.
        name: name of the directory.

    Raises:
        ConfigError: every fault.
    """
    faults = Faults()
    found = ImportedModels([], [], [])
    config = parse_text(text, inference_messages.ModelConfig, place, lenient=True)
    if config.name not in ("", name):
        faults.add(place, f'name: "{config.name}" given; expected "{name}", as its directory')
    model = _Model(config, text, Path(name), found, faults)
    model.translate()
    faults.check()
    return found._replace(declared=model.declared(place), unknown=model.unknown)


def _directories(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path.parent
    elif (path / FILE).is_file() or _versions(path):
        yield path
    else:
        below = sorted(each for each in path.iterdir() if each.is_dir())
        yield from (each for each in below if (each / FILE).is_file() or _versions(each))


def _versions(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(each for each in directory.iterdir() if each.name.isdecimal() and each.is_dir())


class _Model:
    """One model; `translate` adds it to what was found.

    Args of the constructor:
        config, text: its `config.pbtxt`, parsed and as it stands.
        directory: its own, or its name.
        found, faults: are added to.

    Attributes:
        unknown: notes that name fields which Triton does not have either.
    """

    def __init__(
        self, config: Proto, text: str, directory: Path, found: ImportedModels, faults: Faults
    ) -> None:
        self.unknown: list[str] = []
        self._config = config
        self._text = text
        self._directory = directory
        self._found = found
        self._faults = faults
        self._name = config.name or directory.name
        self._backend = config.backend or BACKENDS.get(config.platform, config.platform)

    def translate(self) -> None:
        self._look_at_names()
        for field, _ in self._config.ListFields():
            if field.name not in _CARRIED:
                self._note(f"{field.name}: left out")
        if self._backend == ENSEMBLE or self._config.HasField("ensemble_scheduling"):
            self._found.graphs.append(self._graph())
        elif self._backend not in SERVED:
            self._fault(f"backend {self._backend}: {_UNSERVED.get(self._backend, _OTHER)}")
        else:
            given = {"name": self._name, "base_path": str(self._directory), **self._keys()}
            self._found.models.append({"config": given})

    def declared(self, file: str) -> DeclaredTensors | None:
        """Give the tensors; not those of TorchScript, which has no names for them."""
        config = self._config
        if self._backend == PYTORCH or not (config.input or config.output or config.max_batch_size):
            return None
        inputs, outputs = (tuple(map(_tensor, each)) for each in (config.input, config.output))
        return DeclaredTensors(file, max(config.max_batch_size, 0), inputs, outputs)

    def _keys(self) -> dict[str, Any]:
        self._look_at_tensors()
        return {
            **self._policy(),
            **self._batching(),
            **self._sequences(),
            **self._instances(),
            **self._parameters(),
            **(self._declared() if self._backend == PYTORCH else {}),
        }

    def _policy(self) -> dict[str, Any]:
        policy = self._config.version_policy
        match policy.WhichOneof("policy_choice"):
            case "latest":
                latest = {"num_versions": policy.latest.num_versions or 1}
                return {"model_version_policy": {"latest": latest}}
            case "all":
                return {"model_version_policy": {"all": {}}}
            case "specific":
                specific = {"versions": list(policy.specific.versions)}
                return {"model_version_policy": {"specific": specific}}
        return {}

    def _batching(self) -> dict[str, Any]:
        """Gather requests only where both settings ask for it, as Triton does."""
        if not self._config.HasField("dynamic_batching"):
            return {}
        batching = self._config.dynamic_batching
        for field, _ in batching.ListFields():
            if field.name not in ("max_queue_delay_microseconds", "preferred_batch_size"):
                self._note(f"dynamic_batching.{field.name}: left out")
        if batching.preferred_batch_size:
            self._note("dynamic_batching.preferred_batch_size: left out, any size is formed")
        if self._config.max_batch_size < 1:
            self._note("dynamic_batching: left out, as max_batch_size is 0")
            return {}
        delay = batching.max_queue_delay_microseconds
        timeout = {"batch_timeout_micros": delay} if delay else {}
        return {"max_batch_size": self._config.max_batch_size, **timeout}

    def _sequences(self) -> dict[str, Any]:
        if not self._config.HasField("sequence_batching"):
            return {}
        batching = self._config.sequence_batching
        for field, _ in batching.ListFields():
            self._fault(
                f"sequence_batching.{field.name}: only state inside of the model is kept, by"
                ' "stateful" with docs/guide/sequences.md'
            )
        return {"stateful": True}

    def _instances(self) -> dict[str, Any]:
        groups = self._config.instance_group
        if any(group.kind == _GPU for group in groups):
            self._note('instance_group KIND_GPU: runs on the CPU; "target_device" names another')
        count = sum(group.count or 1 for group in groups)
        return {"nireq": count} if count > 1 else {}

    def _parameters(self) -> dict[str, Any]:
        given = {name: each.string_value for name, each in self._config.parameters.items()}
        is_openvino = self._backend == "openvino"
        kept = {name: given[name] for name in sorted(_OPENVINO & given.keys()) if is_openvino}
        for name in sorted(given.keys() - kept.keys()):
            self._note(f"parameters {name}: left out")
        return {"plugin_config": kept} if kept else {}

    def _declared(self) -> dict[str, Any]:
        """Declare the inputs of TorchScript, which does not name dtypes and shapes."""
        batch = [-1] if self._config.max_batch_size else []
        inputs = {
            each.name: {"dtype": _dtype(each.data_type), "shape": [*batch, *each.dims]}
            for each in self._config.input
        }
        if any("__" in name for name in inputs):
            self._note("params.inputs: name the arguments of forward in place of NAME__NUMBER")
        return {"params": {"inputs": inputs}} if inputs else {}

    def _look_at_names(self) -> None:
        for place, known in unread(self._text, self._config.DESCRIPTOR, _SKIPPED):
            name = place.rpartition(".")[2]
            if name in _IGNORED:
                self._note(f"{place}: left out")
                continue
            self._note(f"{place}: Triton has no such field, left out{nearest(name, known)}")
            self.unknown.append(self._found.notes[-1])

    def _look_at_tensors(self) -> None:
        for each in (*self._config.input, *self._config.output):
            if each.HasField("reshape"):
                shape = list(each.reshape.shape)
                self._note(f"{each.name}: reshape left out, clients see the model's {shape}")
            if getattr(each, "label_filename", ""):
                self._note(f"{each.name}: label_filename left out, signatures.json has labels")
            if getattr(each, "allow_ragged_batch", False):
                self._note(f"{each.name}: allow_ragged_batch left out, equal shapes are gathered")
        for warmup in self._config.model_warmup:
            if any(each.input_data_file for each in warmup.inputs.values()):
                self._note(f"model_warmup {warmup.name}: its files are left out")
        if self._config.model_warmup:
            self._note("model_warmup: a version is inferred with made-up values before it serves")

    def _graph(self) -> dict[str, Any]:
        """Make the ensemble a graph, whose steps are named by their models and numbers."""
        steps = self._config.ensemble_scheduling.step
        sources = {each.name: f"request.{each.name}" for each in self._config.input}
        for number, step in enumerate(steps):
            for output, tensor in step.output_map.items():
                sources[tensor] = f"{_step(number)}.{output}"
        made = {
            _step(number): {
                "model": step.model_name,
                **({"version": step.model_version} if step.model_version > 0 else {}),
                "in": {
                    name: self._source(sources, step.input_map[name]) for name in step.input_map
                },
            }
            for number, step in enumerate(steps)
        }
        outputs = {each.name: self._source(sources, each.name) for each in self._config.output}
        return {"name": self._name, "steps": made, "outputs": outputs}

    def _source(self, sources: Mapping[str, str], tensor: str) -> str:
        if tensor not in sources:
            self._fault(f"ensemble_scheduling: no step gives {tensor}, and no input is called so")
        return sources.get(tensor, "")

    def _note(self, text: str) -> None:
        self._found.notes.append(f"{self._name}: {text}")

    def _fault(self, text: str) -> None:
        self._faults.add(str(self._directory / FILE), text)


def _step(number: int) -> str:
    return f"step{number}"


def _tensor(given: Proto) -> DeclaredTensor:
    """Read an input or output; Triton gives the model what `reshape` says, not `dims`."""
    dims: tuple[int, ...] | None = tuple(given.dims) or None
    if given.HasField("reshape"):
        dims = tuple(given.reshape.shape)
    return DeclaredTensor(given.name, _data_type(given.data_type), dims)


def _dtype(number: int) -> str:
    """Return numpy's word, as `params` takes it, of Triton's data type."""
    found = _data_type(number)
    return found.word if found else _word(number)


def _data_type(number: int) -> DataType | None:
    word = _word(number)
    return BY_NAME.get("BYTES" if word == "STRING" else word)


def _word(number: int) -> str:
    name: str = inference_messages.DATA_TYPES.values_by_number[number].name
    return name.removeprefix("TYPE_")
