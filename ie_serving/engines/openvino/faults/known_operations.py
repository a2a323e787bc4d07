"""What OpenVINO's CPU plugin does with an operation whose input is empty, and which may fail.

Names as `ov.Node.get_type_name()` gives them. An operation that stands in no table is treated with
caution: a name that is missing makes a model slower, one too many makes it wrong. Measured with
OpenVINO 2026.4 (`tests/unit/engines/openvino/faults/test_hazards.py`).
"""


def named(names: str) -> frozenset[str]:
    """Give the names of a text, which blanks part."""
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
"""Their output is empty when a tensor that they compute with is: nothing can show through."""

COMPUTES_FROM_EMPTY = named(
    "Assign Broadcast Bucketize Concat Constant Einsum If Loop MatMul NonZero OneHot Pad "
    "Parameter Range ReadValue ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ScatterElementsUpdate ScatterNDUpdate "
    "ScatterUpdate ShapeOf TensorIterator"
)
"""The plugin computes them, rather than skips them, when an input is empty."""

ENDS_OF_NOTHING = named("boolean i8 u8 i32")
"""Element types of which the greatest and the least of nothing are the ends, as in TensorFlow. Of
others the plugin gives those of 32 bits, or of finite floats, and of the mean always 0."""

NEVER_FAILS = (EMPTY_FROM_EMPTY - {"ReverseSequence"}) | named(
    "AdaptiveAvgPool AdaptiveMaxPool AvgPool BatchNormInference BatchToSpace Broadcast "
    "Bucketize Concat Constant Convolution ConvolutionBackpropData DepthToSpace Einsum "
    "GRUCell GRUSequence Gather GroupConvolution GroupConvolutionBackpropData Interpolate "
    "LSTMCell LSTMSequence MatMul MaxPool OneHot Pad Parameter PriorBox PriorBoxClustered "
    "RNNCell RNNSequence Range ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum RegionYolo ReorgYolo ScaledDotProductAttention "
    "SearchSorted ShapeOf ShuffleChannels SpaceToBatch SpaceToDepth StridedSlice TopK"
)
"""They cannot fail once the shapes of their inputs fit. Any other may refuse values."""
