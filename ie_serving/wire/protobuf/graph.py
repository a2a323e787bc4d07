"""Message classes of a SavedModel: the part of TensorFlow's graph that is read or changed here.

protobuf keeps fields that are not named here as unknown fields, and writes them again. No field of
the API has these messages: they are described here rather than in `protos/`, since one engine's
room reads them, and reflection does not list them.

In a graph an input of a node is "node", "node:1" or "^node"; in a function it is "argument",
"node:output name:index in that output" or "^node".

Source: saved_model.proto, meta_graph.proto, graph.proto, node_def.proto, attr_value.proto,
op_def.proto and function.proto of TensorFlow.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message_factory import GetMessageClass

from ie_serving.wire.protobuf.messages import POOL, Proto

_SCALARS: Final[Mapping[str, Any]] = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "fixed32": FieldDescriptorProto.TYPE_FIXED32,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}

_ENUMS = ("DataType",)

MESSAGES: Final[Mapping[str, str]] = {
    "NameAttrList": "name=1 string, attr=2 map AttrValue",
    "AttrList": (
        "s=2 repeated bytes, i=3 repeated int64, f=4 repeated float, b=5 repeated bool,"
        " type=6 repeated DataType, shape=7 repeated TensorShapeProto,"
        " tensor=8 repeated TensorProto, func=9 repeated NameAttrList"
    ),
    "AttrValue": (
        "list=1 one AttrList, s=2 one bytes, i=3 one int64, f=4 one float, b=5 one bool,"
        " type=6 one DataType, shape=7 one TensorShapeProto, tensor=8 one TensorProto,"
        " placeholder=9 one string, func=10 one NameAttrList"
    ),
    "NodeDef": "name=1 string, op=2 string, input=3 repeated string, attr=5 map AttrValue",
    "ArgDef": "name=1 string, type=3 DataType, number_attr=5 string, type_list_attr=6 string",
    "OpDef": "name=1 string, input_arg=2 repeated ArgDef, output_arg=3 repeated ArgDef",
    "FunctionDef": "signature=1 OpDef, node_def=3 repeated NodeDef, ret=4 map string",
    "FunctionDefLibrary": "function=1 repeated FunctionDef",
    "GraphDef": "node=1 repeated NodeDef, library=2 FunctionDefLibrary, versions=4 VersionDef",
    "VersionDef": "producer=1 int64",
    "OpList": "op=1 repeated OpDef",
    "MetaInfoDef": "stripped_op_list=2 OpList, tags=4 repeated string",
    "SaverDef": "filename_tensor_name=1 string, restore_op_name=3 string",
    "NodeList": "value=1 repeated string",
    "Any": "value=2 bytes",
    "AnyList": "value=1 repeated Any",
    "CollectionDef": "node_list=1 NodeList, any_list=5 AnyList",
    "AssetFileDef": "tensor_info=1 TensorInfo, filename=2 string",
    "MetaGraphDef": (
        "meta_info_def=1 MetaInfoDef, graph_def=2 GraphDef, saver_def=3 SaverDef,"
        " collection_def=4 map CollectionDef, signature_def=5 map SignatureDef,"
        " asset_file_def=6 repeated AssetFileDef"
    ),
    "SavedModel": "meta_graphs=2 repeated MetaGraphDef",
    "FeatureList": "feature=1 repeated Feature",
    "FeatureLists": "feature_list=1 map FeatureList",
    "SequenceExample": "context=1 Features, feature_lists=2 FeatureLists",
    "BundleHeaderProto": "num_shards=1 int64",
    "BundleEntryProto": (
        "dtype=1 DataType, shape=2 TensorShapeProto, shard_id=3 int64, offset=4 int64,"
        " size=5 int64, crc32c=6 fixed32, slices=7 repeated TensorSliceProto"
    ),
    "Extent": "start=1 int64, length=2 int64",
    "TensorSliceProto": "extent=1 repeated Extent",
    "TrackableObjectGraph": "nodes=1 repeated TrackableObject",
    "TrackableObject": "attributes=2 repeated SerializedTensor",
    "SerializedTensor": "full_name=2 string, checkpoint_key=3 string",
}
"""Fields of each message: name, number, `repeated`, `map` from strings, or `one` of a oneof, type.

`AnyList`, `AttrList`, `Extent`, `MetaInfoDef`, `NodeList`, `SerializedTensor` and `TrackableObject`
are nested in TensorFlow, `Any` is of another package; the bytes do not tell.
The last seven are in the index of a checkpoint. Source of those: tensor_bundle.proto,
tensor_slice.proto, trackable_object_graph.proto.
"""


def _described() -> FileDescriptorProto:
    file = FileDescriptorProto(
        name="ie_serving/graph.proto",
        package="tensorflow",
        syntax="proto3",
        dependency=["tensorflow.proto"],
    )
    for name, text in MESSAGES.items():
        message = file.message_type.add(name=name)
        for words in map(str.split, text.split(", ")):
            field, _, number = words[0].partition("=")
            _add(message, field, int(number), words[1:-1], words[-1])
    return file


def _add(message: DescriptorProto, name: str, number: int, how: list[str], kind: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = FieldDescriptorProto.LABEL_OPTIONAL
    if how == ["one"]:
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0
    # A map is a repeated message of key and value in a descriptor; protobuf prescribes its name.
    if how == ["map"]:
        entry_name = "".join(map(str.capitalize, name.split("_"))) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        _add(entry, "key", 1, [], "string")
        _add(entry, "value", 2, [], kind)
        kind = f"{message.name}.{entry.name}"
    if how in (["map"], ["repeated"]):
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        enum = kind in _ENUMS
        kinds = FieldDescriptorProto
        field.type = kinds.TYPE_ENUM if enum else kinds.TYPE_MESSAGE
        field.type_name = f".tensorflow.{kind}"


POOL.AddSerializedFile(_described().SerializeToString())


def _message(name: str) -> Proto:
    return GetMessageClass(POOL.FindMessageTypeByName(f"tensorflow.{name}"))


NodeDef = _message("NodeDef")
AssetFileDef = _message("AssetFileDef")
AttrValue = _message("AttrValue")
FunctionDef = _message("FunctionDef")
GraphDef = _message("GraphDef")
MetaGraphDef = _message("MetaGraphDef")
SavedModel = _message("SavedModel")
SequenceExample = _message("SequenceExample")
BundleHeaderProto = _message("BundleHeaderProto")
BundleEntryProto = _message("BundleEntryProto")
TrackableObjectGraph = _message("TrackableObjectGraph")
