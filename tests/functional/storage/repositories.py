"""Repositories on each kind of store, for the scenarios: how to write, and how to be reached."""

import base64
import http.client
from collections.abc import Mapping
from contextlib import closing, suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import boto3
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as gcs

from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.storage.backends.azure_requests import sign
from ie_serving.storage.backends.storage_opener import open_storage
from ie_serving.storage.base import Storage
from ie_serving.storage.options import StorageOptions
from tests.functional.storage.servers import ADMIN, Azurite, FakeGcs, Proxy, User, Weed
from tests.process import PATIENCE_S

BUCKET = "models"
"""Of all tests on SeaweedFS, which takes a fifth of a second for the first object of a bucket."""


class LocalRepository:
    """A directory."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.environ: dict[str, str] = {}
        self.storage: Storage = open_storage(str(base), StorageOptions(cache_dir=base))

    def put(self, path: str, data: bytes) -> None:
        target = self._base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".new")
        beside.write_bytes(data)
        beside.rename(target)

    def put_all(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            self.put(path, data)

    def remove(self, path: str) -> None:
        """Delete a file, and its directory with the last one, as stores do."""
        target = self._base / path
        target.unlink()
        with suppress(OSError):
            target.parent.rmdir()


class S3Repository:
    """`s3://` or `minio://` on SeaweedFS, read through a proxy that counts and spoils."""

    def __init__(self, scheme: str, weed: Weed, proxy: Proxy, folder: str, cache_dir: Path) -> None:
        self.scheme = scheme
        self.proxy = proxy
        self._base = f"{folder}/base path/m"
        self._cache_dir = cache_dir
        self._admin = s3_admin(weed)
        self._filer = weed.filer
        self.environ = s3_environ(scheme, proxy.url, ADMIN)
        self.storage = self.opened()

    def opened(self, user: User = ADMIN, endpoint: str = "", **environ: str) -> Storage:
        """Open it anew, as this user."""
        endpoint = endpoint or self.proxy.url
        settings = s3_environ(self.scheme, endpoint, user) | environ
        options = storage_options(settings, Faults(), cache_dir=self._cache_dir)
        return open_storage(f"{self.scheme}://{BUCKET}/{self._base}", options)

    def put(self, path: str, data: bytes) -> None:
        self._admin.put_object(Bucket=BUCKET, Key=f"{self._base}/{path}", Body=data)

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Put thousands: by the store's own interface, which takes a tenth of the time of S3's."""
        folder = quote(f"/buckets/{BUCKET}/{self._base}/")
        send_all("PUT", self._filer, {folder + quote(path): data for path, data in files.items()})

    def put_file(self, path: str, file: Path) -> None:
        self._admin.upload_file(str(file), BUCKET, f"{self._base}/{path}")

    def remove(self, path: str) -> None:
        """Delete a file, and its directory with the last one: SeaweedFS would list it still."""
        key = f"{self._base}/{path}"
        directory = key[: key.rindex("/") + 1]
        self._admin.delete_object(Bucket=BUCKET, Key=key)
        left = self._admin.list_objects_v2(Bucket=BUCKET, Prefix=directory)
        if not left["KeyCount"]:
            self._admin.delete_object(Bucket=BUCKET, Key=directory)


class GcsRepository:
    """`gs://` on fake-gcs-server, read through a proxy that counts and spoils."""

    scheme = "gs"

    def __init__(self, server: FakeGcs, proxy: Proxy, bucket: str, cache_dir: Path) -> None:
        self.proxy = proxy
        self._cache_dir = cache_dir
        self._server = server
        self._bucket = gcs_admin(server).create_bucket(bucket)
        self.environ = {"STORAGE_EMULATOR_HOST": proxy.url}
        self.storage = self.opened()

    def opened(self, endpoint: str = "", below: str = "") -> Storage:
        """Open it anew, or what lies `below` it."""
        settings = {"STORAGE_EMULATOR_HOST": endpoint or self.proxy.url}
        options = storage_options(settings, Faults(), cache_dir=self._cache_dir)
        return open_storage(f"gs://{self._bucket.name}/base path/m{below}", options)

    def put(self, path: str, data: bytes) -> None:
        self._bucket.blob(f"base path/m/{path}").upload_from_string(data)

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Put thousands: without the client, which takes ten times as long."""
        upload = f"/upload/storage/v1/b/{self._bucket.name}/o?uploadType=media&name="
        names = {
            upload + quote(f"base path/m/{path}", safe=""): data for path, data in files.items()
        }
        send_all("POST", urlsplit(self._server.url).netloc, names)

    def remove(self, path: str) -> None:
        self._bucket.blob(f"base path/m/{path}").delete()


class AzureRepository:
    """`az://` on Azurite, read through a proxy that counts and spoils."""

    scheme = "az"

    def __init__(self, server: Azurite, proxy: Proxy, container: str, cache_dir: Path) -> None:
        self.proxy = proxy
        self._cache_dir = cache_dir
        self._server = server
        self._container = container
        self.endpoint = f"{proxy.url}/{server.ACCOUNT}"
        self.environ = {
            "AZURE_STORAGE_CONNECTION_STRING": f"AccountName={server.ACCOUNT};"
            f"AccountKey={server.KEY};BlobEndpoint={self.endpoint}"
        }
        self._send("PUT", "", restype="container")
        self.storage = self.opened()

    def opened(self, url: str = "", **environ: str) -> Storage:
        """Open it anew, by these settings in place of its own if there are any."""
        options = storage_options(environ or self.environ, Faults(), cache_dir=self._cache_dir)
        return open_storage(url or f"az://{self._container}/base path/m", options)

    def put(self, path: str, data: bytes, **headers: str) -> None:
        kind = {"x-ms-blob-type": "BlockBlob", "Content-Length": str(len(data) or "")}
        self._send("PUT", f"/base path/m/{path}", data, kind | headers)

    def put_all(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            self.put(path, data)

    def remove(self, path: str) -> None:
        self._send("DELETE", f"/base path/m/{path}")

    def make_public(self) -> None:
        """Let anyone list and read."""
        access = {"x-ms-blob-public-access": "container"}
        self._send("PUT", "", b"", access, restype="container", comp="acl")

    def _send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> None:
        target = f"/{self._server.ACCOUNT}/{self._container}{quote(path)}"
        own = {"x-ms-version": "2021-12-02", "x-ms-date": formatdate(usegmt=True)}
        own |= headers or {}
        sign(self._server.ACCOUNT, base64.b64decode(self._server.KEY), method, target, query, own)
        address = f"127.0.0.1:{self._server.port}"
        with closing(http.client.HTTPConnection(address, timeout=PATIENCE_S)) as connection:
            own["Content-Length"] = str(len(body))  # signed as an empty text where it is 0
            connection.request(method, f"{target}?{urlencode(query)}", body, own)
            with connection.getresponse() as reply:
                assert reply.status < 300, (target, reply.status, reply.read())


def send_all(method: str, address: str, bodies: Mapping[str, bytes]) -> None:
    """Send each body to its target, over one connection."""
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE_S)) as connection:
        for target, body in bodies.items():
            connection.request(method, target, body, {"Content-Type": "application/octet-stream"})
            with connection.getresponse() as reply:
                reply.read()
                assert reply.status in (200, 201), (target, reply.status)


def s3_admin(weed: Weed, ca: str | None = None) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=weed.url,
        aws_access_key_id=ADMIN.key,
        aws_secret_access_key=ADMIN.secret,
        region_name="us-east-1",
        verify=ca,
    )


def gcs_admin(server: FakeGcs) -> Any:
    return gcs.Client(
        project="t",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": server.url},
    )


def s3_environ(scheme: str, endpoint: str, user: User) -> dict[str, str]:
    """The settings that a server would be started with."""
    if scheme == "s3":
        return {
            "S3_ENDPOINT": endpoint,
            "AWS_ACCESS_KEY_ID": user.key,
            "AWS_SECRET_ACCESS_KEY": user.secret,
        }
    return {
        "MINIO_ENDPOINT": endpoint,
        "MINIO_ACCESS_KEY": user.key,
        "MINIO_SECRET_KEY": user.secret,
    }
