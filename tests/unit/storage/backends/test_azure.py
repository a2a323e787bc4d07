"""Which account and container a URL and the settings name."""

import pytest

from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import ConfigError, StorageError
from ie_serving.storage.backends.azure import AzureOptions
from ie_serving.storage.backends.azure_requests import AzureAddress
from ie_serving.storage.backends.storage_opener import check_urls
from ie_serving.storage.base import Location

DOMAIN = "blob.core.windows.net"
PUBLIC = f"https://acc.{DOMAIN}"
SAS = "SharedAccessSignature=sv=2018-03-28&sig=s3cr3t%3D"
OWN = {"AZURE_STORAGE_ACCOUNT": "own", "AZURE_STORAGE_KEY": "a2V5"}


def options(environ: dict[str, str]) -> AzureOptions:
    return storage_options(environ, Faults()).of(AzureOptions)


def located(url: str) -> Location:
    return AzureOptions.location(url, url.partition("://")[2])


@pytest.mark.parametrize(
    ("url", "environ", "place"),
    [
        pytest.param(
            "az://c/m",
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=acc;AccountKey=a2V5=="},
            AzureAddress("acc", PUBLIC, "c"),
            id="a connection string",
        ),
        pytest.param(
            "az://c/m",
            {
                "AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=http;AccountName=acc;"
                "EndpointSuffix=core.chinacloudapi.cn;"
            },
            AzureAddress("acc", "http://acc.blob.core.chinacloudapi.cn", "c"),
            id="a connection string with a suffix",
        ),
        pytest.param(
            "as://acc/c/m",
            {
                "AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={PUBLIC}/;QueueEndpoint=https://q;"
                "SharedAccessSignature=sv=2018-03-28&sig=a%3D"
            },
            AzureAddress("acc", PUBLIC, "c"),
            id="a connection string with an endpoint",
        ),
        pytest.param(
            "azure://c/m",
            {"AZURE_STORAGE_ACCOUNT": "acc"},
            AzureAddress("acc", PUBLIC, "c"),
            id="an account",
        ),
        pytest.param(
            "az://c",
            {"AZURE_STORAGE_ENDPOINT": "here:1/"},
            AzureAddress("", "https://here:1", "c"),
            id="an endpoint",
        ),
        pytest.param(
            "as://acc/c/m", {}, AzureAddress("acc", PUBLIC, "c"), id="an account in the URL"
        ),
        pytest.param(
            "as://own/c/m",
            OWN | {"AZURE_STORAGE_ENDPOINT": "http://e:1/own"},
            AzureAddress("own", "http://e:1/own", "c"),
            id="an endpoint beside an account in the URL",
        ),
        pytest.param(
            "https://acc.blob.core.windows.net/c/m",
            {},
            AzureAddress("acc", PUBLIC, "c"),
            id="a URL of Azure",
        ),
        pytest.param(
            "https://acc.z22.blob.storage.azure.net/c",
            {},
            AzureAddress("acc", "https://acc.z22.blob.storage.azure.net", "c"),
            id="a URL of a zone",
        ),
    ],
)
def test_a_url_and_its_settings_name_account_and_container(
    url: str, environ: dict[str, str], place: AzureAddress
) -> None:
    assert options(environ).address(located(url)) == place


def test_the_location_above_is_in_the_same_account() -> None:
    for url in ("as://acc/c/models", "https://acc.blob.core.windows.net/c/models"):
        assert located(f"{url}/m").above() == located(f"{url}/")


@pytest.mark.parametrize(
    ("url", "environ", "text"),
    [
        pytest.param("az://c/m", {}, "set AZURE_STORAGE_ACCOUNT", id="no account"),
        pytest.param(
            "az://c/m",
            {"AZURE_STORAGE_CONNECTION_STRING": "s3cr3t"},
            "with AccountName",
            id="a string without an account",
        ),
        pytest.param(
            "as://acc", OWN, "expected an account's and a container's name", id="no container"
        ),
        pytest.param("as://acc/c/m", OWN, "is of the account own", id="another account"),
        pytest.param(
            "as://acc/c/m",
            {"AZURE_STORAGE_CONNECTION_STRING": f"{SAS};BlobEndpoint=https://own.{DOMAIN}/"},
            "is of the account own",
            id="an endpoint of another account",
        ),
        pytest.param("azfs://share/m", OWN, "a file share: mount it", id="a file share"),
        pytest.param("https://host/c/m", OWN, "unknown store: over https://", id="another host"),
        pytest.param(
            f"{PUBLIC}/c/m?sig=s3cr3t",
            {},
            "set AZURE_STORAGE_SAS_TOKEN",
            id="a signature in the URL",
        ),
        pytest.param(
            "https://user:s3cr3t@acc.blob.core.windows.net/c",
            {},
            "unknown store",
            id="a password in the URL",
        ),
        pytest.param(
            "https://user:s3cr3t@acc.blob.core.windows.net/c?a",
            {},
            "ends at the ?",
            id="a password and a query",
        ),
    ],
)
def test_a_url_that_names_no_account_or_container_is_refused(
    url: str, environ: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_urls([url], storage_options(environ, Faults()))
    assert text in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


def test_secrets_are_not_in_the_printed_form() -> None:
    secrets = ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN")
    assert "s3cr3t" not in repr(options(dict.fromkeys(secrets, "AccountKey=s3cr3t")))


def test_a_key_that_was_cut_is_said_before_anything_is_sent() -> None:
    given = options({"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_KEY": "cut"})
    remote = given.open(located("az://c/m"))
    with pytest.raises(StorageError, match="check the account, and its key"):
        remote.directories()
