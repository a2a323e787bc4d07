"""The settings of what is computed before a model; OpenVINO Model Server's words and meanings."""

from ie_serving.config.schema.setting import Setting
from ie_serving.config.values import preprocessing

PREPROCESS: tuple[Setting, ...] = (
    Setting(
        place="preprocess.layout",
        parse=preprocessing.layout,
        form="CLIENT:MODEL|{NAME:CLIENT:MODEL}",
        default="the model's",
        meaning="order of dimensions that clients send and get, and the model's; one alone says"
        " which dimension is the batch (N) and which the channels (C)",
        example="NHWC:NCHW",
        flag="layout",
        key="layout",
        ovms=("layout",),
    ),
    Setting(
        place="preprocess.mean",
        parse=preprocessing.mean,
        form="X|[X,..]",
        default="none",
        meaning="subtracted from the input: one number, or one for each channel of the model",
        example="[123.675,116.28,103.53]",
        flag="mean",
        key="mean",
        ovms=("mean",),
    ),
    Setting(
        place="preprocess.scale",
        parse=preprocessing.scale,
        form="X|[X,..]",
        default="none",
        meaning="what the input is divided by, after the mean",
        example="[58.395,57.12,57.375]",
        flag="scale",
        key="scale",
        ovms=("scale",),
    ),
    Setting(
        place="preprocess.color_format",
        parse=preprocessing.color_format,
        form="CLIENT:MODEL",
        default="the model's",
        meaning="order of colours that clients send, and the model's: RGB or BGR",
        example="BGR:RGB",
        flag="color_format",
        key="color_format",
        ovms=("color_format",),
    ),
    Setting(
        place="preprocess.precision",
        parse=preprocessing.precision,
        form="CLIENT:MODEL",
        default="the model's",
        meaning="element type that clients send, and the one that mean and scale are computed in",
        example="uint8:fp32",
        flag="precision",
        key="precision",
        ovms=("precision",),
    ),
)
"""Keys of a model and flags. A driver that cannot do all that is asked for refuses the model."""
