"""Fingerprints of many strings at once, which TensorFlow puts into the same buckets."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.engines.savedmodel.host.fingerprint import (
    TOGETHER,
    fingerprint64,
    fingerprints,
)

BUCKETS = 2**63 - 1


@pytest.mark.parametrize("count", [1, TOGETHER - 1, TOGETHER])
def test_no_text_and_texts_of_every_length_have_the_fingerprints_of_tensorflow(count: int) -> None:
    data = np.random.default_rng(1).bytes(300)
    for length in range(201):
        texts = [data[at : at + length] for at in range(count)]
        found = fingerprints(texts) % np.uint64(BUCKETS)
        expected = tf.strings.to_hash_bucket_fast(np.array(texts, np.object_), BUCKETS)
        assert found.tolist() == expected.numpy().tolist(), length


@given(st.lists(st.binary(max_size=100), min_size=TOGETHER, max_size=TOGETHER + 20))
def test_texts_of_any_lengths_together_are_hashed_as_each_alone(texts: list[bytes]) -> None:
    assert fingerprints(texts).tolist() == [fingerprint64(text) for text in texts]
