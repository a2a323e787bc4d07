"""Integers, which the plugin computes as float32 or with 32 bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from tests.canaries.bare import compiled, const, floats, ints, port, whole
from tests.canaries.fault import fault

BIG = 2**24 + 1
"""The first integer that a float32 does not hold."""
KINDS = {np.int8: "i8", np.uint16: "u16", np.int32: "i32", np.int64: "i64", np.float32: "f32"}


def of(build: Callable[..., Any], *arrays: Array) -> Array:
    """Send arrays through a graph of fixed shapes."""
    inputs = [port(KINDS[array.dtype.type], *array.shape) for array in arrays]
    return compiled([build(*inputs)], inputs)(*arrays)[0]


@fault(
    "`Equal`, `NotEqual`, `Less`, `LessEqual`, `Greater`, `GreaterEqual`: as float32: "
    "16777216 < 16777217 is false. Right where one of both is below 2^24; a 64-bit constant "
    "is cut to 32 bits",
    done="`BitwiseXor` with the other, or with the lesser of both, is compared with 0; a constant "
    "beyond 32 bits by its sign",
    tests=("integers/test_comparing.py::test_comparisons_are_exact",),
    issue=35825,
)
def comparing() -> bool:
    return of(op.less, ints(2**24), ints(BIG)).tolist() != [True]


@fault(
    "`Divide`, `Mod`, `FloorMod`: as float32: 16777217 mod 7 is 1; of 8 bits some quotients "
    "are rounded; by 0 -2147483648 or another number",
    done="a rough quotient, and its remainder without rounding, twice (`integers/arithmetic.py` "
    "has the proof). Quotients are cut, as those of TensorFlow and ONNX are. A divisor of 0 is "
    "refused",
    tests=(
        "integers/test_arithmetic.py::test_quotients_and_remainders_are_exact",
        "integers/test_arithmetic.py::test_a_divisor_of_0_is_refused",
    ),
    issue=37766,
)
def dividing() -> bool:
    return of(op.floor_mod, ints(BIG), ints(7)).tolist() != [BIG % 7]


@fault(
    "`ReduceMax`, `ReduceMin`: as float32: the largest of 2147483646 is -2147483648",
    done="in two steps: without the lowest 8 bits, then by those",
    tests=("integers/test_comparing.py::test_the_greatest_and_the_least_are_exact",),
)
def the_greatest() -> bool:
    return int(of(lambda x: op.reduce_max(x, const([0]), False), ints(2**31 - 2, 5))) != 2**31 - 2


@fault(
    "`Relu`, `Clamp`, `Floor`, `Ceiling`: as float32",
    done="`Maximum`, `Minimum`; integers stay as they are",
    tests=(
        "integers/test_comparing.py::test_relu_rounding_and_booleans_are_exact",
        "integers/test_comparing.py::test_limits_are_exact",
    ),
)
def limits() -> bool:
    return of(op.relu, ints(BIG)).tolist() != [BIG]


@fault(
    "`Maximum`, `Minimum`, `Select`: exact alone; as float32 where they are fused with an "
    "operation in front that is, as a comparison, `Mod`, or another `Select`; `Minimum` of "
    "`Maximum` becomes a `Clamp`",
    done="kept apart from it by a bitwise operation; `Select` by bits",
    tests=("integers/test_comparing.py::test_fused_operations_stay_exact",),
)
def fused_selections() -> bool:
    return of(lambda a, b: op.select(op.less(a, b), a, b), ints(2**24), ints(BIG)).tolist() != [
        2**24
    ]


@fault(
    "`Convert` to boolean: -2147483648 is false",
    done="compared with 0",
    tests=("integers/test_comparing.py::test_relu_rounding_and_booleans_are_exact",),
)
def booleans() -> bool:
    return of(lambda x: op.convert(x, "boolean"), ints(-(2**31))).tolist() != [True]


@fault(
    "`ReduceSum`, `ReduceMean`: as float32",
    done="the last of the cumulative sums, which the plugin computes with int32; of 64 bits "
    "refused where a sum on the way leaves 32. Axes that are not known at load: refused where"
    " magnitudes add up to 2^24",
    tests=("integers/test_sums.py::test_sums_and_means_of_all_magnitudes",),
)
def sums() -> bool:
    return int(of(lambda x: op.reduce_sum(x, const([0]), False), ints(BIG, 2))) != BIG + 2


@fault(
    "arithmetic behind `ReduceMax`, `ReduceMin`, `ReduceSum`, `ReduceMean`, `ReduceL1`, "
    "`MatMul`, `Einsum` that stay as they are, and behind `ReduceProd`, also past a `Reshape`"
    " and the like: fused, and all of it as float32: of int32 `ReduceProd` + 1 is rounded",
    done="kept apart by a bitwise operation where a result may be beyond 2^24 "
    "(`integers/exact.py`), behind `ReduceProd` always",
    tests=("integers/test_comparing.py::test_arithmetic_behind_is_exact",),
)
def arithmetic_behind() -> bool:
    return (
        int(
            of(
                lambda x: op.add(op.reduce_prod(x, const([0]), False), const(1, np.int32)),
                ints(2**12, 2**12 + 1),
            )
        )
        != 2**12 * (2**12 + 1) + 1
    )


@fault(
    "`Convert` to float64: as float32: 16777217 is 16777216.0, where TensorFlow has 53 bits",
    done="refused where the number is not one of float32",
    tests=(
        "integers/test_comparing.py::test_an_integer_that_a_float32_does_not_hold_is_refused_as_double",
    ),
)
def to_doubles() -> bool:
    return of(lambda x: op.convert(x, "f64"), ints(BIG)).tolist() != [float(BIG)]


@fault(
    "`Convert` from float64 to 32 or 64 bits: of a number that was computed as float32",
    done="refused where it is 2^24 or more",
    tests=("integers/test_comparing.py::test_a_double_that_may_be_rounded_is_refused_as_integer",),
)
def from_doubles() -> bool:
    return of(
        lambda x: op.convert(op.add(op.convert(x, "f64"), op.convert(x, "f64")), "i32"), ints(BIG)
    ).tolist() != [2 * BIG]


@fault(
    "`Power`: as float32",
    done="squares are multiplied; exponents that a request chooses are refused below 0, as by "
    "TensorFlow, and above 31",
    tests=("integers/test_arithmetic.py::test_exponents_of_a_request_are_exact_or_refused",),
)
def powers() -> bool:
    return of(lambda x: op.power(x, const(2, np.int32)), ints(4097)).tolist() != [4097**2]


@fault(
    "`MatMul`, `Einsum`, `ReduceL1`: as float32",
    done="refused where magnitudes add up to 2^24; a `MatMul` of factors of 8 bits, as of "
    "quantized models, is left where its results become floats",
    tests=("integers/test_sums.py::test_matrices_are_refused_where_they_may_be_rounded",),
    issue=37956,
)
def products() -> bool:
    return of(
        lambda a, b: op.matmul(a, b, False, False),
        np.array([[BIG]], np.int32),
        np.array([[1]], np.int32),
    ).tolist() != [[BIG]]


@fault(
    "sums by `ScatterNDUpdate`, `ScatterElementsUpdate`, `EmbeddingSegmentsSum` of 64 bits, "
    "and of unsigned 32: cut to 32 bits",
    done="refused where a sum does not fit into 32 bits, or about a million numbers or more are "
    "added up (`integers/sums.py`)",
    tests=("integers/test_sums.py::test_sums_that_fit_are_exact_and_others_refused",),
)
def scattered_sums() -> bool:
    return of(
        lambda x: op.scatter_nd_update(x, const([[0]]), const([2**31 - 1]), "sum"), whole(1)
    ).tolist() != [2**31]


@fault(
    "other ways of these to make one number of several, bags of embeddings, `PRelu`, "
    "`ReduceL2`: as float32, or not measured",
    done="fail the version",
    tests=("integers/test_sums.py::test_an_operation_that_nothing_makes_exact_is_refused_by_name",),
)
def norms() -> bool:
    return int(of(lambda x: op.reduce_l2(x, const([0]), False), ints(BIG))) != BIG


@fault(
    "constants beyond 32 bits that are moved (`Concat`, `Pad`, `Gather` and so on), given "
    "out, or given to the bodies of loops and branches: cut: of 2^40 `Pad` makes -2147483648,"
    " `Concat` 2147483647",
    done="fail the version. Ends of slices are left; so is what a `Select` gives to `ReduceMax` or"
    " `ReduceMin` alone, which is refused where nothing else is found",
    tests=(
        "integers/test_fixed.py::test_an_output_that_is_a_constant_beyond_32_bits_fails_the_version",
        "integers/test_fixed.py::test_a_constant_beyond_32_bits_does_not_enter_a_loop",
    ),
)
def moved_constants() -> bool:
    return of(lambda x: op.concat([x, const([2**40])], 0), whole(1)).tolist() != [1, 2**40]


@fault(
    "`Add`, `Subtract`, `Multiply`, `SquaredDifference`, `CumSum`, `BitwiseLeftShift`, `Abs`,"
    " `Negative`, `ReduceProd` of 64 bits, and of unsigned 32: cut to 32 bits: 2147483647 + 1"
    " is -2147483648",
    done="refused where a result does not fit into 32 bits; of `ReduceProd` above 2^30. A constant"
    " beyond 32 bits fails the version",
    tests=("integers/test_arithmetic.py::test_results_that_fit_are_exact_and_the_rest_refused",),
    issue=35823,
)
def arithmetic_of_64_bits() -> bool:
    return of(op.add, whole(2**31 - 1), whole(1)).tolist() != [2**31]


@fault(
    "the same and `ReduceL1` of 8 and 16 bits: 8 bits stay at their ends instead of wrapping "
    "around, some are wrong without that; 16 bits go on with 32",
    done="computed with int32, and cut",
    tests=("integers/test_arithmetic.py::test_results_wrap_around_as_those_of_tensorflow",),
)
def arithmetic_of_8_bits() -> bool:
    return of(op.add, np.array([127], np.int8), np.array([1], np.int8)).tolist() != [-128]


@fault(
    "`Convert` and `ConvertLike` to 64 bits, or to types without a sign: cut: of 3000000000.0"
    " it gives -2147483648",
    done="refused where the value does not fit into 32 bits, or is NaN, or negative",
    tests=(
        "integers/test_arithmetic.py::test_reals_that_do_not_fit_are_refused",
        "integers/test_arithmetic.py::test_negative_numbers_are_none_of_types_without_a_sign",
    ),
    issue=35896,
)
def reals_to_64_bits() -> bool:
    return of(lambda x: op.convert(x, "i64"), floats(3e9)).tolist() != [3_000_000_000]


@fault(
    "`Convert` to 16 bits: goes on with 32",
    done="cut",
    tests=("integers/test_arithmetic.py::test_conversions_keep_the_bits_of_their_type",),
)
def to_16_bits() -> bool:
    return of(lambda x: op.convert(op.convert(x, "i16"), "i32"), ints(70000)).tolist() != [
        70000 - 65536
    ]


@fault(
    "`BitwiseAnd`, `BitwiseOr`, `BitwiseXor`, `BitwiseRightShift` with a constant beyond 32 "
    "bits: it is cut: of 1 & (2^40 + 2) 1 is left",
    done="a mask by its lowest bits, and negative numbers are refused; the others fail the version",
    tests=(
        "integers/test_arithmetic.py::test_a_mask_beyond_32_bits",
        "integers/test_arithmetic.py::test_other_constants_beyond_32_bits_fail_the_version",
        "integers/test_fixed.py::test_constants_beyond_32_bits_that_openvino_does_not_fold_are_refused",
    ),
)
def wide_masks() -> bool:
    return of(lambda x: op.bitwise_and(x, const([2**40 + 2])), whole(1)).tolist() != [0]


@fault(
    "`BitwiseNot` of unsigned 16, 32 and 64 bits: what reads it goes on with -1 for the "
    "inverse of 0",
    done="16 bits are cut; wider ones fail the version, but where they are given out at once",
    tests=(
        "integers/test_arithmetic.py::test_an_unsigned_integer_that_is_inverted_and_computed_with_is_refused",
    ),
)
def inverted_bits() -> bool:
    return of(
        lambda x: op.convert(op.bitwise_not(x), "i32"), np.array([0], np.uint16)
    ).tolist() != [65535]


@fault(
    "`Bucketize`, `SearchSorted` among constants beyond 32 bits: these are cut to the ends of"
    " int32",
    done="those two ends are refused",
    tests=(
        "integers/test_fixed.py::test_places_among_constants_beyond_32_bits_are_exact_or_refused",
    ),
)
def wide_boundaries() -> bool:
    return of(
        lambda x: op.bucketize(x, const([2**40]), "i32", True), whole(2**31 - 1)
    ).tolist() != [0] or of(
        lambda x: op.bucketize(x, const([2**40]), "i32", False), whole(2**31 - 1)
    ).tolist() != [0]


@fault(
    "`Interpolate`: as float32",
    done="refused where a number is beyond 2^24",
    tests=("integers/test_fixed.py::test_pictures_of_large_integers_are_not_resized",),
)
def pictures() -> bool:
    return (
        of(
            lambda x: op.interpolate(x, const([2, 2]), "nearest", "sizes", axes=const([0, 1])),
            np.full((1, 1), BIG, np.int32),
        ).tolist()
        != [[BIG] * 2] * 2
    )


@fault(
    "`ReverseSequence`: as float32",
    done="in two parts: without the lowest 8 bits, and those",
    tests=("integers/test_moving.py::test_operations_that_move_integers_keep_all_bits",),
)
def reversed_rows() -> bool:
    return of(
        lambda x: op.reverse_sequence(x, const([1], np.int32), 0, 1), np.array([[BIG]], np.int32)
    ).tolist() != [[BIG]]


@fault(
    "the number that `Pad` fills up with: rounded: of 16777217 it makes 16777216",
    done="0 is filled in, and made that number by its bits",
    tests=("integers/test_moving.py::test_operations_that_move_integers_keep_all_bits",),
)
def numbers_to_pad_with() -> bool:
    return of(
        lambda x: op.pad(x, const([1]), const([0]), "constant", const(BIG, np.int32)), ints(1)
    ).tolist() != [BIG, 1]


@fault(
    "`ReduceMean` of 8 bits ends its sums at 255 or 127 where all sizes are known: of 200, 200 and "
    "201 it is 85",
    done="computed with int32 (`rewrites.py`)",
    where="graphs with it; two conversions",
    tests=("test_rewrites.py::test_the_mean_of_small_integers_is_that_of_all",),
)
def means_of_8_bits() -> bool:
    x = port("u8", 3)
    mean = compiled([op.reduce_mean(x, const([0]), False)], [x])
    return int(mean(np.array([200, 200, 201], np.uint8))[0]) != 200


@fault(
    "Products of quantized models: without VNNI or AMX the sum of two products of 8 bits stops at "
    "32767, so that weights beyond 64 give other numbers",
    done="such models are computed in floats on such CPUs (`quantization.py`), unless `integers` "
    "is `fast`",
    where="models whose inputs and weights are quantized, with weights beyond 64; as long as the "
    "model of floats takes",
    tests=("test_narrow_inputs.py::test_sums_of_products_are_right",),
    no_canary="on CPUs without VNNI alone",
)
def sums_of_8_bits_stop() -> bool:
    x = port("f32", 1, 64)
    ends = [const(each, np.float32) for each in (0, 255, 0, 255)]
    packed = op.convert(op.constant(np.full((64, 16), 127, np.int8)), "f32")
    weights = op.multiply(packed, const(1, np.float32))
    y = op.matmul(op.fake_quantize(x, *ends, 256), weights, False, False)
    return bool((compiled([y], [x])(np.full((1, 64), 255, np.float32))[0] < 64 * 255 * 126).any())
