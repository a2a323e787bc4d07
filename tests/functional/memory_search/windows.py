"""Operations on pictures, regions and boxes."""

from functools import partial
from typing import Any

import numpy as np
import openvino.opset14 as op14
import openvino.opset16 as op

from tests.functional.memory_search.draw import FLOAT, Case, Draw, covers

AUTO = ("explicit", "explicit", "same_upper", "same_lower", "valid")


def _spatial(d: Draw, low: int = 3) -> tuple[list[int], dict[str, Any]]:
    rank = d.rank(1, 3)
    pads = [[d.pick([0, 0, 1]) for _ in range(rank)] for _ in range(2)]
    return [d.size(low, 7) for _ in range(rank)], {
        "strides": [d.pick([1, 1, 2]) for _ in range(rank)],
        "pads_begin": pads[0],
        "pads_end": pads[1],
    }


@covers("convolution", "group_convolution")
def convolution(d: Draw) -> Case:
    spatial, common = _spatial(d)
    kernel = [d.pick([1, 2, 3]) for _ in spatial]
    common |= {"dilations": [1] * len(spatial), "auto_pad": d.pick(AUTO)}
    groups, n = d.pick([1, 1, 2, 4]), d.size(1, 3)
    taken, given = d.pick([1, 2, 8]), d.pick([1, 3, 8])
    held = [1] if d.chance(0.7) else ()
    x = d.floats([n, groups * taken, *spatial])
    if groups == 1:
        made = partial(op.convolution, **common)
        return Case([x, d.floats([given, taken, *kernel])], made, held)
    made = partial(op.group_convolution, **common)
    return Case([x, d.floats([groups, given, taken, *kernel])], made, held)


@covers("convolution_backprop_data", "group_convolution_backprop_data")
def transposed(d: Draw) -> Case:
    spatial, common = _spatial(d)
    kernel = [d.pick([2, 3]) for _ in spatial]
    common |= {"dilations": [1] * len(spatial), "output_padding": [0] * len(spatial)}
    groups, n, taken, given = d.pick([1, 1, 2]), d.size(1, 3), d.pick([1, 2, 8]), d.pick([1, 3, 8])
    x, held = d.floats([n, groups * taken, *spatial]), [1] if d.chance(0.7) else ()
    if groups == 1:
        made = partial(op.convolution_backprop_data, **common)
        return Case([x, d.floats([taken, given, *kernel])], made, held)
    made = partial(op.group_convolution_backprop_data, **common)
    return Case([x, d.floats([groups, taken, given, *kernel])], made, held)


@covers("deformable_convolution", "binary_convolution")
def other_convolutions(d: Draw) -> Case:
    n, h, w = d.size(1, 3), d.size(3, 6), d.size(3, 6)
    ones = [1, 1]
    x, weights = d.floats([n, 2, h, w]), d.floats([3, 2, 3, 3])
    if d.chance(0.3):
        made = partial(
            op.binary_convolution, strides=ones, pads_begin=ones, pads_end=ones, dilations=ones,
            mode="xnor-popcount", pad_value=0.0,
        )  # fmt: skip
        bits = np.asarray(d.ints([3, 2, 3, 3], 0, 1), np.uint8)
        return Case([np.sign(x), bits], made, [1])
    made = partial(
        op.deformable_convolution, strides=ones, pads_begin=ones, pads_end=ones, dilations=ones
    )
    return Case([x, d.share([n, 18, h, w], -2, 2), weights], made, [2] if d.chance(0.7) else ())


@covers("max_pool", "avg_pool")
def pools(d: Draw) -> Case:
    spatial, common = _spatial(d)
    kernel = [d.pick([2, 3]) for _ in spatial]
    x = d.floats([d.size(1, 3), d.pick([1, 3, 8]), *spatial])
    rounding, auto = d.pick(["floor", "ceil"]), d.pick(AUTO)
    common |= {"kernel_shape": kernel, "rounding_type": rounding, "auto_pad": auto}
    if d.chance(0.5):
        return Case([x], partial(op.max_pool, dilations=[1] * len(spatial), axis=2, **common))
    make = d.pick([op14.avg_pool, op.avg_pool])
    return Case([x], partial(make, exclude_pad=d.chance(0.5), **common))


@covers("adaptive_avg_pool", "adaptive_max_pool")
def adaptive(d: Draw) -> Case:
    spatial, _ = _spatial(d, 1)
    x = d.floats([d.size(1, 3), d.pick([1, 3, 8]), *spatial])
    sizes = np.array([d.size(1, 4) for _ in spatial])
    if d.chance(0.5):
        return Case([x, sizes], op.adaptive_avg_pool)
    return Case([x, sizes], partial(op.adaptive_max_pool, index_element_type="i32"))


@covers("interpolate")
def interpolate(d: Draw) -> Case:
    mode = d.pick(["nearest", "linear_onnx", "linear", "cubic", "bilinear_pillow"])
    by = d.pick(["sizes", "scales"])
    x = d.floats([d.size(1, 2), d.pick([1, 3, 8]), d.size(2, 5), d.size(2, 5)])
    made = partial(
        op.interpolate,
        mode=mode,
        shape_calculation_mode=by,
        antialias=mode == "linear" and d.chance(0.3),
        coordinate_transformation_mode=d.pick(["half_pixel", "asymmetric", "align_corners"]),
    )
    axes = np.array([2, 3])
    to = np.array([d.size(1, 7), d.size(1, 7)]) if by == "sizes" else d.share([2], 0.5, 2)
    return Case([x, to, axes], lambda x, s, a: made(x, s, axes=a), [2])


@covers("grid_sample")
def grid_sample(d: Draw) -> Case:
    n = d.size(1, 3)
    attributes = {
        "align_corners": d.chance(0.5),
        "mode": d.pick(["bilinear", "bicubic", "nearest"]),
        "padding_mode": d.pick(["zeros", "border", "reflection"]),
    }
    grid = d.share([n, d.size(), d.size(), 2], -1.5, 1.5)
    x = d.floats([n, d.pick([1, 3]), d.size(), d.size()])
    return Case([x, grid], lambda x, g: op.grid_sample(x, g, attributes))


def _rois(d: Draw, count: int, side: int) -> Any:
    low = d.share([count, 2], 0, side / 2)
    return np.concatenate([low, low + d.share([count, 2], 1, side / 2)], 1).astype(FLOAT)


@covers(
    "roi_align", "roi_align_rotated", "roi_pooling", "psroi_pooling", "deformable_psroi_pooling"
)
def regions(d: Draw) -> Case:
    n, count, side = d.size(1, 3), d.size(1, 4), 8
    rois, batch = _rois(d, count, side), d.ints([count], 0, n - 1, np.int32)
    whole = np.concatenate([batch[:, None].astype(FLOAT), rois], 1)
    x = d.floats([n, 8, side, side])
    kind = d.pick(["align", "rotated", "pooling", "ps", "deformable"])
    if kind == "align":
        mode, ratio = d.pick(["avg", "max"]), d.pick([0, 2])
        return Case([x, rois, batch], lambda *a: op.roi_align(*a, 2, 3, ratio, 1.0, mode))
    if kind == "rotated":
        turned = np.concatenate([rois, d.share([count, 1])], 1)
        return Case([x, turned, batch], lambda *a: op.roi_align_rotated(*a, 2, 2, 2, 1.0, True))
    if kind == "pooling":
        method = d.pick(["max", "bilinear"])
        return Case([x, whole], lambda *a: op.roi_pooling(*a, [2, 2], 1.0, method))
    if kind == "ps":
        return Case([x, whole], lambda *a: op.psroi_pooling(*a, 2, 2, 1.0, 1, 1, "average"))
    made = partial(op.deformable_psroi_pooling, output_dim=2, spatial_scale=1.0, group_size=2)
    return Case([x, whole], made)


@covers("extract_image_patches")
def patches(d: Draw) -> Case:
    x = d.floats([d.size(1, 2), d.pick([1, 3]), d.size(4, 8), d.size(4, 8)])
    pad = d.pick(["valid", "same_upper", "same_lower"])
    return Case([x], lambda x: op.extract_image_patches(x, [2, 3], [2, 2], [1, 1], pad))


@covers("col2im")
def col2im(d: Draw) -> Case:
    n, h, w = d.size(1, 3), d.size(3, 6), d.size(3, 6)
    columns = d.floats([n, 3 * 4, (h - 1) * (w - 1)])
    return Case([columns, np.array([h, w]), np.array([2, 2])], op.col2im, [2])


def _boxes(d: Draw) -> tuple[Any, Any, int]:
    n, classes, count = d.size(1, 2), d.pick([1, 3]), d.size(1, 9)
    boxes = np.stack([_rois(d, count, 8) for _ in range(n)])
    return boxes, d.share([n, classes, count]), count


@covers("non_max_suppression", "matrix_nms", "multiclass_nms", "nms_rotated")
def suppression(d: Draw) -> Case:
    boxes, scores, _ = _boxes(d)
    kind, sort = d.pick(["one", "matrix", "many", "rotated"]), d.chance(0.5)
    if kind == "matrix":
        return Case([boxes, scores], partial(op.matrix_nms, score_threshold=0.2))
    if kind == "many":
        return Case([boxes, scores], partial(op.multiclass_nms, score_threshold=0.2))
    operands = [boxes, scores, np.array(d.size(1, 5)), d.share([]), d.share([], 0, 0.5)]
    if kind == "one":
        made = partial(op.non_max_suppression, box_encoding="corner", sort_result_descending=sort)
        return Case([*operands, np.array(0, FLOAT)], made, [5])
    operands[0] = np.concatenate([boxes, d.share([*boxes.shape[:2], 1])], -1)
    return Case(operands, partial(op.nms_rotated, sort_result_descending=sort))


@covers("ctc_greedy_decoder", "ctc_greedy_decoder_seq_len", "ctc_loss")
def ctc(d: Draw) -> Case:
    n, steps, classes = d.size(1, 3), d.size(2, 6), d.pick([3, 5])
    kind = d.pick(["old", "new", "loss"])
    lengths = d.ints([n], 1, steps, np.int32)
    if kind == "old":
        mask = np.ones([steps, n], FLOAT)
        mask[1:] = np.arange(1, steps)[:, None] < lengths
        return Case(
            [d.floats([steps, n, classes]), mask], lambda x, m: op.ctc_greedy_decoder(x, m, True)
        )
    if kind == "new":
        return Case([d.floats([n, steps, classes]), lengths], op.ctc_greedy_decoder_seq_len)
    labels = d.ints([n, steps], 0, classes - 2, np.int32)
    fits = d.ints([n], 1, max(1, steps // 2), np.int32)
    blank = np.array(classes - 1, np.int32)
    return Case(
        [d.share([n, steps, classes]), np.full([n], steps, np.int32), labels, fits, blank],
        op.ctc_loss,
        [4],
    )


@covers("prior_box", "prior_box_clustered")
def priors(d: Draw) -> Case:
    sizes = np.array([d.size(1, 4), d.size(1, 4)]), np.array([30, 40])
    if d.chance(0.5):
        known = {"min_size": [4.0], "aspect_ratio": [2.0], "offset": 0.5, "step": 8.0}
        return Case(sizes, lambda a, b: op.prior_box(a, b, known))
    known = {"width": [4.0, 8.0], "height": [2.0, 5.0], "offset": 0.5, "step": 8.0}
    known |= {"variance": [0.1], "clip": True}
    return Case(sizes, lambda a, b: op.prior_box_clustered(a, b, known))


@covers("region_yolo")
def region_yolo(d: Draw) -> Case:
    x = d.floats([d.size(1, 3), 2 * (5 + 2), d.size(1, 4), d.size(1, 4)])
    soft = d.chance(0.5)
    made = partial(op.region_yolo, coords=4, classes=2, num=2, do_softmax=soft, mask=[0, 1])
    return Case([x], lambda x: made(x, axis=1, end_axis=3, anchors=[1.0, 2.0, 3.0, 4.0]))


@covers("detection_output")
def detection_output(d: Draw) -> Case:
    n, priors, classes = d.size(1, 3), d.size(1, 6), 3
    boxes = (_rois(d, priors, 8) / 8).reshape(1, 1, -1)
    place = np.concatenate([boxes, np.full_like(boxes, 0.1)], 1)
    attributes = {
        "num_classes": classes,
        "background_label_id": 0,
        "top_k": 5,
        "keep_top_k": [5],
        "nms_threshold": 0.5,
        "confidence_threshold": 0.2,
        "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
        "share_location": True,
        "normalized": True,
    }
    return Case(
        [d.share([n, priors * 4], -1), d.share([n, priors * classes]), place],
        lambda *a: op.detection_output(*a, attributes),
    )


@covers("proposal")
def proposal(d: Draw) -> Case:
    h, w = d.size(2, 4), d.size(2, 4)
    attributes = {
        "base_size": np.uint64(4),
        "pre_nms_topn": np.uint64(10),
        "post_nms_topn": np.uint64(6),
        "nms_thresh": np.float64(0.7),
        "feat_stride": np.uint64(4),
        "min_size": np.uint64(1),
        "ratio": np.array([1.0]),
        "scale": np.array([1.0, 2.0]),
    }
    info = np.array([32, 32, 1], FLOAT)
    operands = [d.share([1, 4, h, w]), d.share([1, 8, h, w], -1), info]
    return Case(operands, lambda *a: op.proposal(*a, attributes))


@covers("nv12_to_bgr", "nv12_to_rgb", "i420_to_bgr", "i420_to_rgb")
def colours(d: Draw) -> Case:
    n, h, w = d.size(1, 2), 2 * d.size(1, 3), 2 * d.size(1, 3)
    make = d.pick([op.nv12_to_bgr, op.nv12_to_rgb, op.i420_to_bgr, op.i420_to_rgb])
    return Case([d.data([n, h + h // 2, w, 1], np.uint8, FLOAT)], make)
