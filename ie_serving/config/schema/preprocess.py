"""The settings of preprocessing; words and meanings are OpenVINO Model Server's."""

from typing import Any

from ie_serving.config.schema.setting import Setting
from ie_serving.config.values import preprocessing, words
from ie_serving.config.values.faults import Parser
from ie_serving.engines.preprocessing import RESIZES


def _named(
    name: str,
    parse: Parser[Any],
    *,
    form: str,
    meaning: str,
    example: str,
    default: str = "the model's",
) -> Setting:
    """Declare a setting that has one name in every dialect."""
    return Setting(
        place=f"preprocess.{name}",
        parse=parse,
        form=form,
        meaning=meaning,
        example=example,
        default=default,
        flag=name,
        key=name,
        ovms=(name,),
    )


PREPROCESS: tuple[Setting, ...] = (
    _named(
        "layout",
        preprocessing.layout,
        form="CLIENT:MODEL|{NAME:CLIENT:MODEL}",
        meaning="order of dimensions that clients send and get, and the model's; one alone says"
        " which dimension is the batch (N) and which the channels (C)",
        example="NHWC:NCHW",
    ),
    _named(
        "mean",
        preprocessing.mean,
        form="X|[X,..]",
        default="none",
        meaning="subtracted from the input: one number, or one for each channel of the model",
        example="[123.675,116.28,103.53]",
    ),
    _named(
        "scale",
        preprocessing.scale,
        form="X|[X,..]",
        default="none",
        meaning="what the input is divided by, after the mean",
        example="[58.395,57.12,57.375]",
    ),
    _named(
        "color_format",
        preprocessing.color_format,
        form="CLIENT:MODEL",
        meaning="order of colours that clients send, and the model's: RGB or BGR",
        example="BGR:RGB",
    ),
    _named(
        "precision",
        preprocessing.precision,
        form="CLIENT:MODEL",
        meaning="element type that clients send, and the one that mean and scale are computed in",
        example="uint8:fp32",
    ),
    Setting(
        place="preprocess.resize",
        parse=words.one_of(*RESIZES),
        form="|".join(RESIZES),
        default="the model's size only",
        meaning="take images of any height and width, and resize them to those of the model; layout"
        " says which dimensions they are",
        example="linear",
        flag="resize",
        key="resize",
    ),
)
"""Keys of a model and flags. A driver that cannot do all of them refuses the model."""
