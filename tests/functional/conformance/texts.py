"""The texts of TensorFlow Serving's errors, which clients compare as a whole.

`<>` stands for what the request or the model decides, `…` for any end.
"""

import re

TEXTS = """
Method not found!
Missing ModelSpec
ModelSpec has no name specified.
Servable not found for request: Latest(<>)
Servable not found for request: Specific(<>, <>)
Unrecognized servable version label: <>
Could not find any versions of model <>
Could not find version <> of model <>
Serving signature key "<>" not found.
Serving signature name: "<>" not found in signature def
No signature was found with the name: <>
Requested signature not found in model graph: <>
Unsupported signature method_name: <>
Duplicate evaluation of signature: <>
Found ModelSpec with an empty model name.
All ModelSpecs in a MultiInferenceRequest must access the same model name.
Input is empty.
input size does not match signature: <>!=<> len({<>}) != len({<>}). Sent extra: {<>}. Missing but required: {<>}.
tensor parsing error: <>
Expects arg[<>] to be <> but <> is provided
output tensor alias not found in signature: <> Outputs expected to be in the set {<>}.
duplicate output tensor alias: <>
Expected prediction signature method_name to be one of {<>}. Was: <>
Expected classification signature method_name to be <>. Was: <>
Expected classification signature outputs to contain at least one of "classes" or "scores". Signature was: …
No classification inputs found in SignatureDef: …
No regression inputs found in SignatureDef: …
No regression outputs found in SignatureDef: …
Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got <>
GetModelMetadataRequest must specify at least one metadata_field
Metadata field <> is not supported
Malformed request: <>
Missing model name in request.
Failed to convert version: <> to numeric.
JSON Parse error: The document is empty
JSON Parse error: <>. at offset: <>
JSON Parse error: Missing a comma or <> after an <>. at offset: <>
JSON Value: <> Is not object
JSON Value: <> not formatted correctly. 'signature_name' key must be a string value.
JSON Value: <> Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist 
Missing 'inputs' or 'instances' key
JSON Value: <> Expecting 'instances' to be an list/array
JSON Value: <> No values in 'instances' array
instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map
inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map
Expecting object but got list at item <> of input list
Expecting value/list but got object at item <> of input list
Failed to process element: <> of 'instances' list. JSON object: <> keys must be equal to: <>
Missing named input: <> in 'inputs' object.
Tensor name: <> has no shape information 
Tensor name: <> has inconsistent batch size: <> expecting: <>
JSON Value: <> When method is classify, key 'examples' is expected and was not found
JSON Value: <> Expecting 'examples' value to be an list/array
JSON Value: <> 'examples' value is an empty array
Example must be JSON object but got JSON <>
Feature: <> has element with unexpected JSON type: <>
Feature: <> has uint64_t element. Only int64_t is supported.
Unexpected element type in feature: <> expecting type: <>
Request to assign label to version <> of model <>, which is not currently available for inference
ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported
Illegal to list model <> multiple times in config list
Expected model <> to have an absolute path or URI; got base_path()=<>
Illegal setting both ModelServerConfig::model_type (deprecated) and ModelServerConfig::model_platform, model name is <>
Illegal setting neither ModelServerConfig::model_type (deprecated) nor ModelServerConfig::model_platform, model name is <>
ModelServerConfig::model_type choice <> not supported.
Illegal to change a model's platform. For model <> platform was <> and new platform requested is <>
Model <> requests unsupported platform <>
No request-logger-creator provided.
"""  # noqa: E501, W291  texts as they are, one a line

INNER = """
JSON object: does not have named input: <>
JSON Value: <> Type: <> is not of expected type: <>
JSON Value: <> found at incorrect level: <> in the JSON DOM. Expected at level: <>
Encountered list at unexpected level: <> expected < <>
Encountered list at unexpected size: <> at level: <> expected size: <>
Expecting tensor size: <> but got: <>
Expecting shape [<>] but got: [<>]
JSON Value: <> not formatted correctly for base64 data
Unable to base64 decode
"""
"""Faults of one value; those of a row are wrapped."""

PLACES = (
    "",
    "Failed to process element: <> of 'instances' list. Error: INVALID_ARGUMENT: ",
    "Failed to process element: <> key: <> of 'instances' list. Error: INVALID_ARGUMENT: ",
)

_FREE = {"<>": ".*", "…": ".*"}
_LAST = "(?:(?![:;] ).)*"
"""The end of a text: advice would begin with a colon or a semicolon."""


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split("(<>|…)", text)
    written = [_FREE.get(part) or re.escape(part) for part in parts]
    if text.endswith("<>"):
        written[-2] = _LAST
    return re.compile("".join(written), re.DOTALL)


PATTERNS = [
    *(_pattern(text) for text in TEXTS.strip("\n").split("\n")),
    *(_pattern(place + text) for place in PLACES for text in INNER.strip("\n").split("\n")),
]


def is_theirs(text: str) -> bool:
    """Tell whether a text is one of TensorFlow Serving's, from its first character to its last."""
    return any(pattern.fullmatch(text) for pattern in PATTERNS)
