"""Azure Blob Storage: how it is reached, with which credentials, and what each refusal says."""

import base64
import hashlib
import hmac
import json
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPMessage
from pathlib import Path
from types import SimpleNamespace

import pytest

from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import (
    EntryChanged,
    Missing,
    StorageError,
    Throttled,
    Unauthorized,
    Unreachable,
    Untrusted,
)
from ie_serving.storage.backends.storage_opener import open_storage
from ie_serving.storage.base import Entry, Storage
from tests.functional.load import AVAILABLE, END, states
from tests.functional.storage.repositories import AzureRepository
from tests.functional.storage.servers import SECRET, Answers, Azurite, Fault, Proxy, Reply
from tests.functional.storage.serving import Launcher, only_at, put
from tests.functional.storage.test_refusals import refused
from tests.process import free_ports, until
from tests.tables import named_by
from tests.unit.storage.contract import listed

OpenProxy = Callable[[int], Proxy]
KEY = Azurite.KEY
ENTRY = Entry("1/model.xml", 1, "0x8", 0.0)


@pytest.fixture
def repository(
    azurite: Azurite, proxied: OpenProxy, bucket: str, cache_dir: Path
) -> AzureRepository:
    made = AzureRepository(azurite, proxied(azurite.port), bucket, cache_dir)
    made.put("1/model.xml", b"x")
    return made


@pytest.fixture
def settings(repository: AzureRepository) -> dict[str, str]:
    """The settings in single variables, without credentials."""
    return {
        "AZURE_STORAGE_ACCOUNT": Azurite.ACCOUNT,
        "AZURE_STORAGE_ENDPOINT": repository.endpoint,
    }


def signature(key: str = KEY, rights: str = "rl") -> str:
    """Sign access to the account, for an hour."""
    until_when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    fields = {"sp": rights, "ss": "b", "srt": "sco", "st": "", "se": until_when, "sip": ""}
    fields |= {"spr": "https,http", "sv": "2021-12-02"}
    text = "\n".join([Azurite.ACCOUNT, *fields.values(), "", ""])
    digest = hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)
    sig = base64.b64encode(digest).decode().replace("+", "%2B").replace("/", "%2F")
    return "&".join([*(f"{name}={value}" for name, value in fields.items() if value), f"sig={sig}"])


def is_read(storage: Storage) -> bool:
    with storage.copy("1", listed(storage, "1")) as copy:
        return (copy / "model.xml").read_bytes() == b"x"


@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param({"AZURE_STORAGE_KEY": KEY}, id="key"),
        pytest.param({"AZURE_STORAGE_ACCESS_KEY": KEY}, id="key in KServe's word"),
        pytest.param({"AZURE_STORAGE_SAS_TOKEN": signature()}, id="signature"),
        pytest.param({"AZURE_STORAGE_SAS_TOKEN": f"?{signature()}"}, id="signature of the portal"),
    ],
)
def test_each_kind_of_credentials_opens_the_store(
    repository: AzureRepository, settings: dict[str, str], credentials: dict[str, str]
) -> None:
    storage = repository.opened(**settings, **credentials)
    assert storage.directories() == ["1"]
    assert is_read(storage)


def test_each_form_of_the_url_opens_the_same_store(repository: AzureRepository) -> None:
    for form in (repository.storage.url, repository.storage.url.replace("az", "azure", 1)):
        assert repository.opened(form).directories() == ["1"]
    triton = repository.storage.url.replace("az://", f"as://{Azurite.ACCOUNT}/")
    assert repository.opened(triton).directories() == ["1"]
    web = f"https://{Azurite.ACCOUNT}.blob.core.windows.net/"
    url = repository.storage.url.replace("az://", web).replace(" ", "%20")
    assert repository.opened(url).directories() == ["1"]


def test_a_wrong_key_and_a_wrong_signature_are_refused(
    repository: AzureRepository, settings: dict[str, str]
) -> None:
    wrong = base64.b64encode(f"wrong-{SECRET}".encode()).decode()
    by_key = repository.opened(**settings, AZURE_STORAGE_KEY=wrong)
    refused(Unauthorized, ["cannot list", "(AuthorizationFailure)"], by_key.directories)
    signed = signature(wrong)
    by_signature = repository.opened(**settings, AZURE_STORAGE_SAS_TOKEN=signed)
    with pytest.raises(Unauthorized) as raised:
        by_signature.directories()
    assert signed[-20:] not in str(raised.value)


def test_a_key_that_is_no_base64_is_refused(
    repository: AzureRepository, settings: dict[str, str]
) -> None:
    storage = repository.opened(**settings, AZURE_STORAGE_KEY=f"{SECRET}!")
    refused(Unauthorized, ["cannot list", "check the account, and its key"], storage.directories)


def test_a_missing_container_and_a_missing_prefix_are_told_apart(
    repository: AzureRepository,
) -> None:
    nowhere = repository.opened("az://no-such-container/m")
    refused(Missing, ["the bucket does not exist (ContainerNotFound)"], nowhere.directories)
    other = repository.opened(repository.storage.url.replace("base path", "other"))
    refused(Missing, ["begins with 'other/m/'"], other.directories)


def test_a_public_container_is_read_anonymously(
    repository: AzureRepository, settings: dict[str, str]
) -> None:
    storage = repository.opened(**settings, AZURE_ANONYMOUS="1")
    refused(Unauthorized, ["refuses requests without credentials"], storage.directories)
    repository.make_public()
    assert storage.directories() == ["1"]
    assert is_read(storage)


@pytest.mark.parametrize(
    ("endpoint", "kind", "words"),
    [
        ("http://no-such-host.invalid", Unreachable, ["does not resolve (DNS)", "account's name"]),
        ("http://127.0.0.1:{closed}", Unreachable, ["was refused", "AZURE_STORAGE_ENDPOINT"]),
        ("https://127.0.0.1:{open}", Untrusted, ["does not speak TLS"]),
    ],
)
def test_each_trouble_of_the_network_has_its_words(
    repository: AzureRepository, endpoint: str, kind: type[StorageError], words: list[str]
) -> None:
    endpoint = endpoint.format(closed=free_ports(1)[0], open=repository.proxy.port)
    environ = {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_SAS_TOKEN": f"sig={SECRET}"}
    storage = repository.opened(**environ, AZURE_STORAGE_ENDPOINT=endpoint)
    refused(kind, words, storage.directories)


def test_silence_is_a_time_out(
    repository: AzureRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ie_serving.storage.backends.azure_requests.READ_TIMEOUT_S", 0.2)
    repository.proxy.choose = lambda line: Fault(hang=True)
    silent = repository.opened("az://silent/m")
    refused(Unreachable, ["no answer in time (time-out)"], silent.directories)


def test_an_authority_of_ones_own(
    authority: tuple[Path, Path, Path], repository: AzureRepository
) -> None:
    with Azurite(*authority[1:]) as server:
        environ = {"AZURE_STORAGE_ACCOUNT": server.ACCOUNT, "AZURE_STORAGE_KEY": KEY}
        environ["AZURE_STORAGE_ENDPOINT"] = server.url
        storage = repository.opened("az://none/m", **environ)
        words = ["certificate was refused", "REQUESTS_CA_BUNDLE"]
        refused(Untrusted, words, storage.directories)
        environ["REQUESTS_CA_BUNDLE"] = str(authority[0])
        refused(Missing, ["bucket"], repository.opened("az://none/m", **environ).directories)


class TestAnswers:
    """A stub for what Azurite does not answer."""

    @pytest.fixture
    def answering(self, cache_dir: Path, bucket: str) -> Iterator[Callable[..., Storage]]:
        """Open a store that gives these answers, the last again and again."""
        self.seen: list[HTTPMessage] = []
        answers: list[Reply] = []

        def answer(method: str, path: str, headers: HTTPMessage) -> Reply:
            self.seen.append(headers)
            return answers.pop(0) if len(answers) > 1 else answers[0]

        with Answers(answer) as store:

            def open_answering(*replies: Reply, **environ: str) -> Storage:
                answers[:] = replies
                settings = {"AZURE_STORAGE_ENDPOINT": f"{store.url}/a", **environ}
                options = storage_options(settings, Faults(), cache_dir=cache_dir)
                return open_storage(f"az://{bucket}/m", options)

            yield open_answering

    @named_by(
        "code",
        ("status", "code", "kind", "words"),
        [
            (403, "AuthenticationFailed", Unauthorized, ["credentials were refused", "expires"]),
            (401, "InvalidAuthenticationInfo", Unauthorized, ["credentials were refused"]),
            (403, "AuthorizationPermissionMismatch", Unauthorized, ["denied to list", "Reader"]),
            (403, "AuthorizationFailure", Unauthorized, ["permission denied", "firewall"]),
            (404, "ContainerNotFound", Missing, ["the bucket does not exist"]),
            (503, "ServerBusy", Throttled, ["asks to slow down", "poll less often"]),
            (500, "InternalError", Unreachable, ["the store failed (InternalError)"]),
            (409, "AccountIsDisabled", StorageError, ["refused the request (AccountIsDisabled)"]),
        ],
    )
    def test_each_refusal_of_a_listing_has_its_words(
        self,
        answering: Callable[..., Storage],
        status: int,
        code: str,
        kind: type[StorageError],
        words: list[str],
    ) -> None:
        reply = (status, {"x-ms-error-code": code}, f"<Error>{SECRET}</Error>".encode())
        storage = answering(reply, AZURE_STORAGE_SAS_TOKEN=f"sig={SECRET}")
        refused(kind, ["cannot list", *words], storage.directories)

    def test_a_wrong_clock_is_told_apart_from_a_wrong_key(
        self, answering: Callable[..., Storage], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Azure has the code of a wrong key for it."""
        late = SimpleNamespace(time=lambda: time.time() + 3600)
        monkeypatch.setattr("ie_serving.storage.backends.azure.time", late)
        reply = (403, {"x-ms-error-code": "AuthenticationFailed"}, b"")
        storage = answering(reply, AZURE_STORAGE_SAS_TOKEN="sig=a")
        refused(Unauthorized, ["clocks", "set this machine's clock"], storage.directories)

    @named_by(
        "code",
        ("status", "code", "kind"),
        [
            (404, "BlobNotFound", EntryChanged),
            (412, "ConditionNotMet", EntryChanged),
            (416, "InvalidRange", EntryChanged),
            (403, "AuthorizationPermissionMismatch", Unauthorized),
        ],
    )
    def test_each_refusal_of_a_read_has_its_kind(
        self, answering: Callable[..., Storage], status: int, code: str, kind: type[StorageError]
    ) -> None:
        reply = (status, {"x-ms-error-code": code}, b"")
        storage = answering(reply, AZURE_STORAGE_SAS_TOKEN="sig=a")
        with pytest.raises(kind, match=r"cannot read 1/model\.xml"), storage.copy("1", (ENTRY,)):
            pass

    def test_pages_of_a_listing_are_all_read(self, answering: Callable[..., Storage]) -> None:
        """The second with a name that XML cannot have."""
        pages = (
            "<R><Blobs><BlobPrefix><Name>m/1/</Name></BlobPrefix></Blobs>"
            "<NextMarker>more</NextMarker></R>",
            '<R><Blobs><BlobPrefix><Name Encoded="true">m/%02/</Name></BlobPrefix></Blobs></R>',
        )
        replies = [(200, {}, page.encode()) for page in pages]
        storage = answering(*replies, AZURE_STORAGE_SAS_TOKEN="sig=a")
        assert storage.directories() == ["1", "\x02"]

    def test_the_identity_of_the_machine_opens_the_store(
        self, answering: Callable[..., Storage], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A managed identity, as App Service and Container Apps offer it."""
        pytest.importorskip("azure.identity")

        def token(method: str, path: str, headers: HTTPMessage) -> Reply:
            assert headers["X-IDENTITY-HEADER"] == "me"
            expires = str(int(time.time()) + 3600)
            granted = {"access_token": f"ey.{SECRET}", "expires_on": expires}
            body = json.dumps(granted | {"resource": "r", "token_type": "Bearer"})
            return 200, {"Content-Type": "application/json"}, body.encode()

        with Answers(token) as identities:
            monkeypatch.setenv("IDENTITY_ENDPOINT", f"{identities.url}/msi/token")
            monkeypatch.setenv("IDENTITY_HEADER", "me")
            storage = answering((403, {"x-ms-error-code": "AuthorizationFailure"}, b""))
            refused(Unauthorized, ["Storage Blob Data Reader"], storage.directories)
        assert [each["Authorization"] for each in self.seen] == [f"Bearer ey.{SECRET}"]

    def test_an_identity_that_is_refused_is_told(
        self, answering: Callable[..., Storage], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("azure.identity")
        with Answers(lambda method, path, headers: (400, {}, b"{}")) as identities:
            monkeypatch.setenv("IDENTITY_ENDPOINT", identities.url)
            monkeypatch.setenv("IDENTITY_HEADER", "me")
            storage = answering((200, {}, b""))
            refused(Unauthorized, ["no usable credentials", "identity"], storage.directories)
        assert self.seen == []

    def test_the_lack_of_the_library_of_identities_is_told(
        self, answering: Callable[..., Storage], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "azure.identity", None)
        storage = answering((200, {}, b""))
        words = ["no usable credentials (azure-identity)", "install the extra azure"]
        refused(Unauthorized, words, storage.directories)


def test_a_server_serves_from_the_store_and_follows_it(
    repository: AzureRepository, launcher: Launcher
) -> None:
    repository.remove("1/model.xml")
    put(repository, 1)
    launcher.environ |= repository.environ
    server = launcher.serve(*only_at(repository.storage.url))
    put(repository, 2, sample=2)
    until(lambda: states(server) == {1: END, 2: AVAILABLE})
