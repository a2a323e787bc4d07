"""How the S3 client is set up; what it does is tested against real servers."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from ie_serving.storage.backends import s3
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.base import Location
from ie_serving.storage.trouble import Trouble


class AskedError(Exception):
    """Holds the URL that would have been asked."""


KEYS = {"access_key": "key", "secret_key": "secret"}


@pytest.mark.parametrize(
    ("options", "host", "path"),
    [
        pytest.param(
            S3Options(endpoint="http://store:9000", **KEYS),
            "store:9000",
            "/models/key",
            id="an endpoint is asked in path style",
        ),
        pytest.param(
            S3Options(endpoint="https://store:9000", addressing="virtual", **KEYS),
            "models.store:9000",
            "/key",
            id="or in virtual-host style",
        ),
        pytest.param(
            S3Options(region="eu-west-1", signature="s3v4", **KEYS),
            "models.s3.eu-west-1.amazonaws.com",
            "/key",
            id="AWS in virtual-host style",
        ),
        pytest.param(
            S3Options(region="eu-west-1", signature="s3v4", addressing="path", **KEYS),
            "s3.eu-west-1.amazonaws.com",
            "/models/key",
            id="AWS in path style",
        ),
    ],
)
def test_the_endpoint_decides_the_form_of_addresses(
    options: S3Options, host: str, path: str
) -> None:
    client = s3.make_client(options, "models")

    def tell(request: Any, **others: object) -> None:
        raise AskedError(request.url)

    client.meta.events.register("before-send", tell)
    with pytest.raises(AskedError) as asked:
        client.get_object(Bucket="models", Key="key")
    url = urlsplit(str(asked.value))
    assert (url.netloc, url.path) == (host, path)


def test_a_store_other_than_aws_needs_no_region() -> None:
    client = s3.make_client(S3Options(endpoint="http://store:9000", **KEYS), "models")
    assert client.meta.region_name == "us-east-1"


@pytest.mark.parametrize(("signature", "version"), [("s3v4", "s3v4"), ("s3", "s3")])
def test_the_signature_version_is_the_one_asked_for(signature: str, version: str) -> None:
    options = S3Options(endpoint="http://store:9000", signature=signature, **KEYS)
    assert s3.make_client(options, "models").meta.config.signature_version == version


def test_advice_names_the_variable_that_chose_the_store() -> None:
    location = Location.parse("s3://models/m", "models/m")
    remote = s3.S3Remote(location, S3Options(endpoint_variable="AWS_ENDPOINT_URL"))
    assert remote.advice[Trouble.REFUSED] == (
        "check host and port of AWS_ENDPOINT_URL, and that the store runs"
    )
    assert not any("S3_ENDPOINT" in str(text) for text in remote.advice.values())


def test_one_client_serves_all_models_of_a_bucket() -> None:
    options = S3Options(endpoint="http://store:9000", **KEYS)
    assert s3.client_of(options, "models").get() is s3.client_of(options, "models").get()
    assert s3.client_of(options, "models") is not s3.client_of(options, "other")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-11-22T10:00:00.000Z", id="Amazon's"),
        pytest.param("2026-11-22T10:00:00Z", id="without a fraction"),
        pytest.param("2026-11-22T10:00:00.000000000Z", id="of nanoseconds"),
        pytest.param("2026-11-22T12:00:00+02:00", id="of another zone"),
        pytest.param("Sun, 22 Nov 2026 10:00:00 GMT", id="of a header"),
        pytest.param("1795341600", id="seconds since the epoch"),
    ],
)
def test_times_of_any_format_are_read(text: str) -> None:
    assert s3.read_time(text).timestamp() == 1795341600
