"""Tables of operations by how OpenVINO's CPU plugin handles an empty input, and of those that fail.

Names as `ov.Node.get_type_name()` gives them. An operation that is in no table gets the guards: a
missing name makes a model slower, a wrong name makes its outputs wrong. Measured with
OpenVINO 2026.4 (`tests/unit/engines/openvino/faults/test_hazards.py`).
"""


def named(names: str) -> frozenset[str]:
    """Split a text of names at blanks."""
    return frozenset(names.split())


EMPTY_FROM_EMPTY = named(
    "Abs Acos Acosh Add Asin Asinh Atan Atanh BitwiseAnd BitwiseLeftShift BitwiseNot "
    "BitwiseOr BitwiseRightShift BitwiseXor Ceiling Clamp Convert ConvertLike Cos Cosh CumSum "
    "Divide Elu Equal Erf Exp FakeConvert FakeQuantize Floor FloorMod Gelu Greater "
    "GreaterEqual GroupNormalization HSigmoid HSwish HardSigmoid Identity IsFinite IsInf "
    "IsNaN LRN Less LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr LogicalXor MVN "
    "Maximum Minimum Mish Mod Multiply Negative NormalizeL2 NotEqual PRelu Power RMS Relu "
    "Reshape Result Reverse ReverseSequence RoPE Roll Round Select Selu Sigmoid Sign Sin Sinh "
    "Slice SoftMax SoftPlus SoftSign Softmax Split Sqrt SquaredDifference Squeeze Subtract "
    "Swish Tan Tanh Tile Transpose Unsqueeze VariadicSplit"
)
"""Operations whose output is empty if an input tensor is, so it cannot hold older data."""

COMPUTES_FROM_EMPTY = named(
    "Assign Broadcast Bucketize Concat Constant Einsum If Loop MatMul NonZero OneHot Pad "
    "Parameter Range ReadValue ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ScatterElementsUpdate ScatterNDUpdate "
    "ScatterUpdate ShapeOf TensorIterator"
)
"""Operations that the plugin computes, rather than skips, if an input is empty."""

ENDS_OF_NOTHING = named("boolean i8 u8 i32")
"""Element types whose maximum or minimum of no elements is an end of the type, as in TensorFlow.
For others the plugin gives an end of int32 or of finite floats; a mean is always 0."""

NEVER_FAILS = (EMPTY_FROM_EMPTY - {"ReverseSequence"}) | named(
    "AdaptiveAvgPool AdaptiveMaxPool AvgPool BatchNormInference BatchToSpace Broadcast "
    "Bucketize Concat Constant Convolution ConvolutionBackpropData DepthToSpace Einsum "
    "GRUCell GRUSequence Gather GroupConvolution GroupConvolutionBackpropData Interpolate "
    "LSTMCell LSTMSequence MatMul MaxPool OneHot Pad Parameter PriorBox PriorBoxClustered "
    "RNNCell RNNSequence Range ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum RegionYolo ReorgYolo ScaledDotProductAttention "
    "SearchSorted ShapeOf ShuffleChannels SpaceToBatch SpaceToDepth StridedSlice TopK"
)
"""Operations that cannot fail once the shapes of their inputs fit. Others may refuse values."""
