"""The kernels of all operations, by their names."""

from collections.abc import Mapping
from typing import Final

from ie_serving.engines.savedmodel.host import (
    kernels_audio,
    kernels_boxes,
    kernels_examples,
    kernels_images,
    kernels_loops,
    kernels_numbers,
    kernels_resizing,
    kernels_shapes,
    kernels_sparse,
    kernels_strings,
    tables,
)
from ie_serving.engines.savedmodel.host.host_kernel import HostKernel

KERNELS: Final[Mapping[str, HostKernel]] = {
    **kernels_audio.KERNELS,
    **kernels_boxes.KERNELS,
    **kernels_shapes.KERNELS,
    **kernels_numbers.KERNELS,
    **kernels_sparse.KERNELS,
    **kernels_strings.KERNELS,
    **kernels_strings.PATTERN_KERNELS,
    **kernels_examples.KERNELS,
    **kernels_images.KERNELS,
    **kernels_loops.KERNELS,
    **kernels_resizing.KERNELS,
    **kernels_resizing.SAMPLING_KERNELS,
    **tables.KERNELS,
}
