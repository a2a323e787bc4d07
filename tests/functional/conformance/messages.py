"""Protocol buffer text for rows, so that a row says only what is particular to it."""

from collections.abc import Iterable, Mapping, Sequence

Version = int | str | None
"""A number, a label, or the default."""


def model_spec(name: str, version: Version = None, signature: str = "") -> str:
    fields = [f'name: "{name}"'] if name else []
    if isinstance(version, int):
        fields.append(f"version {{ value: {version} }}")
    elif version is not None:
        fields.append(f'version_label: "{version}"')
    if signature:
        fields.append(f'signature_name: "{signature}"')
    return f"model_spec {{ {' '.join(fields)} }}"


def tensor(dtype: str, shape: Sequence[int], values: str = "") -> str:
    dims = " ".join(f"dim {{ size: {size} }}" for size in shape)
    return f"dtype: {dtype} tensor_shape {{ {dims} }} {values}".rstrip()


def floats(values: str, *shape: int) -> str:
    return tensor("DT_FLOAT", shape, f"float_val: [{values}]" if values else "")


def predict(model: str, *rest: str, **inputs: str) -> str:
    """A PredictRequest: a name or a whole model_spec, tensors by alias, and other fields."""
    spec = model if model.startswith("model_spec") or not model else model_spec(model)
    return " ".join([spec, *entries("inputs", inputs), *rest]).strip()


def predicted(
    model: str, version: int = 1, signature: str = "serving_default", **outputs: str
) -> str:
    """A PredictResponse."""
    return " ".join([*entries("outputs", outputs), model_spec(model, version, signature)])


def entries(field: str, tensors: Mapping[str, str]) -> Iterable[str]:
    return (f'{field} {{ key: "{k}" value {{ {value} }} }}' for k, value in tensors.items())
