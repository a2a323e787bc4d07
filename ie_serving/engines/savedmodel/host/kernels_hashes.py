"""Kernels that put strings into buckets. Source: string_to_hash_bucket_fast_op.h of TensorFlow."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from ie_serving.engines.savedmodel.host.attributes import Attributes
from ie_serving.engines.savedmodel.host.fingerprint import fingerprint64
from ie_serving.engines.savedmodel.host.host_kernel import LONG, Compute, HostKernel
from ie_serving.engines.savedmodel.host.kernels_strings import each


def _fast(attributes: Attributes) -> Compute:
    buckets = attributes.integer("num_buckets", 1)
    return lambda array: each(lambda text: fingerprint64(text) % buckets, array, np.int64)


KERNELS: Final[Mapping[str, HostKernel]] = {"StringToHashBucketFast": HostKernel(_fast, (LONG,))}
