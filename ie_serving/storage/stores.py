"""The kinds of store, each a row: its module has its settings, its advice and its client."""

from collections.abc import Mapping
from typing import Final

from ie_serving.storage.backends.azure import AzureOptions
from ie_serving.storage.backends.gcs import GcsOptions
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.options import StoreOptions

KINDS: Final[Mapping[str, type[StoreOptions]]] = {
    "s3": S3Options,
    "gcs": GcsOptions,
    "minio": MinioOptions,
    "azure": AzureOptions,
}
"""By the first word of the places of its settings."""

BY_SCHEME: Final[Mapping[str, type[StoreOptions]]] = {
    scheme: kind for kind in KINDS.values() for scheme in kind.schemes
}
