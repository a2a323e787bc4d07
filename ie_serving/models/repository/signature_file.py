"""`signatures.json`: the signatures that a version has besides its model's own.

    {"signatures": {
        "classify_digit": {
            "method": "classify",
            "base": "serving_default",
            "features": {"image": "pixels"},
            "outputs": {"scores": "probabilities"},
            "labels": "labels.txt"}}}

It lies next to the model. A signature named here takes a batch of `tensorflow.Example`, fills the
inputs of its `base` with their features, and reads scores and classes, or values, from the base's
outputs. `docs/reference/api/grpc.md` documents each key; clients see the result in
GetModelMetadata.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.signatures import ROLES, example_signature
from ie_serving.core.values.tensors import (
    CLASSES,
    SERVING_DEFAULT,
    DataType,
    ExampleBinding,
    Method,
    Signature,
    Specs,
)

FILE = "signatures.json"

KEYS = {"method", "base", "features", "outputs", "labels"}
METHODS = {"classify": Method.CLASSIFY, "regress": Method.REGRESS}


def with_signature_file(
    directory: Path, signatures: Mapping[str, Signature]
) -> Mapping[str, Signature]:
    """Add the signatures of the version's `signatures.json`, if it has one.

    Args:
        directory: local directory of the version.
        signatures: the model's own, by name.

    Raises:
        LoadFailed: the file is broken; the text names all its faults, each with its place.
    """
    path = directory / FILE
    if not path.is_file():
        return signatures
    added: dict[str, Signature] = {}
    faults: list[str] = []
    for name, definition in _definitions(path).items():
        reading = _SignatureEntry(directory, signatures, f"signatures.{name}", name)
        mistakes = list(reading.faults(definition))
        faults += mistakes
        if not mistakes:
            added[name] = reading.signature(definition)
    if faults:
        raise LoadFailed(f"{FILE}: " + "; ".join(faults))
    return {**signatures, **added}


def _definitions(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise LoadFailed(f"{FILE} cannot be read: {error}") from error
    # One key alone: a file of another kind, or a misspelt key, must not pass for an empty one.
    definitions = document.get("signatures") if isinstance(document, dict) else None
    if not isinstance(definitions, dict) or set(document) != {"signatures"}:
        raise LoadFailed(f'{FILE} must be an object with the one key "signatures", an object')
    return definitions


@dataclass(frozen=True)
class _SignatureEntry:
    """One entry of the file, checked against the model's own signatures."""

    directory: Path
    known: Mapping[str, Signature]
    place: str
    name: str

    def faults(self, definition: Any) -> Iterator[str]:  # noqa: ANN401  any JSON
        """Yield each fault of the entry with its place; nothing for a valid entry."""
        if not isinstance(definition, dict):
            yield f"{self.place}: expected an object"
            return
        for key in sorted(definition.keys() - KEYS):
            yield f"{self.place}.{key}: unknown key; known are {', '.join(sorted(KEYS))}"
        if self.name in self.known:
            yield f"{self.place}: the model itself has a signature of this name: rename it"
        # The method decides which outputs and labels there may be: without it nothing more is
        # judged.
        if definition.get("method") not in METHODS:
            yield f"{self.place}.method: expected classify or regress"
            return
        base = self.known.get(definition.get("base", SERVING_DEFAULT))
        if base is None:
            yield f"{self.place}.base: expected one of {', '.join(sorted(self.known))}"
            return
        if base.definition:
            return  # without its base there is nothing to compare; the entry is left out too
        yield from self._mapping_faults(definition, "features", base.inputs)
        yield from self._output_faults(definition, base)
        yield from self._label_faults(definition)

    def _mapping_faults(self, definition: dict[str, Any], key: str, specs: Specs) -> Iterator[str]:
        mapping = definition.get(key, {})
        if not isinstance(mapping, dict) or not all(isinstance(v, str) for v in mapping.values()):
            yield f"{self.place}.{key}: expected an object of texts"
            return
        for alias in sorted(mapping.keys() - specs.keys()):
            yield f"{self.place}.{key}.{alias}: the base has {', '.join(sorted(specs))}"

    def _output_faults(self, definition: dict[str, Any], base: Signature) -> Iterator[str]:
        roles = ROLES[METHODS[definition["method"]]]
        outputs = definition.get("outputs")
        if not isinstance(outputs, dict) or not outputs or not outputs.keys() <= roles.keys():
            yield f"{self.place}.outputs: expected an object with {' or '.join(roles)}"
            return
        for role, alias in outputs.items():
            spec = base.outputs.get(alias) if isinstance(alias, str) else None
            if spec is None:
                yield f"{self.place}.outputs.{role}: the base has {', '.join(sorted(base.outputs))}"
            elif (spec.dtype is DataType.STRING) != (roles[role] is DataType.STRING):
                yield f"{self.place}.outputs.{role}: {spec} is not {roles[role].word}"

    def _label_faults(self, definition: dict[str, Any]) -> Iterator[str]:
        labels = definition.get("labels")
        if labels is None:
            return
        if definition["method"] != "classify" or CLASSES in definition.get("outputs", {}):
            yield f"{self.place}.labels: only for classify without an output for classes"
        # A name alone: a path could lead out of the version's directory.
        elif not isinstance(labels, str) or Path(labels).name != labels:
            yield f"{self.place}.labels: expected the name of a file beside {FILE}"
        elif not (self.directory / labels).is_file():
            yield f'{self.place}.labels: there is no file "{labels}" beside {FILE}'

    def signature(self, definition: dict[str, Any]) -> Signature:
        """Make the signature of an entry without faults."""
        method = METHODS[definition["method"]]
        base = self.known[definition.get("base", SERVING_DEFAULT)]
        if base.definition:
            return replace(base, name=self.name, method=method.value, left_out=_base_fault(base))
        named = definition.get("features", {})
        binding = ExampleBinding(
            base=base,
            features={alias: named.get(alias, alias) for alias in base.inputs},
            roles=definition["outputs"],
            labels=self._labels(definition.get("labels")),
        )
        return example_signature(self.name, method, binding)

    def _labels(self, file: str | None) -> tuple[str, ...]:
        if file is None:
            return ()
        return tuple((self.directory / file).read_text("utf-8").splitlines())


def _base_fault(base: Signature) -> str:
    return f'its base "{base.name}" is not served: {base.left_out or "it computes nothing"}'
