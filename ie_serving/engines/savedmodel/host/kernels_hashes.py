"""Kernels that put strings into buckets. Source: string_to_hash_bucket_fast_op.h of TensorFlow."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.host.attributes import Attributes
from ie_serving.engines.savedmodel.host.fingerprint import fingerprints
from ie_serving.engines.savedmodel.host.host_kernel import LONG, Compute, HostKernel


def _fast(attributes: Attributes) -> Compute:
    buckets = attributes.integer("num_buckets", 1)

    def compute(array: Array) -> Array:
        hashed: Array = fingerprints(array.ravel().tolist()) % np.uint64(buckets)
        return hashed.astype(np.int64).reshape(array.shape)

    return compute


KERNELS: Final[Mapping[str, HostKernel]] = {"StringToHashBucketFast": HostKernel(_fast, (LONG,))}
