"""What each trouble looks like: its kind, its words, and no secret in any of them."""

import json
import traceback
from collections.abc import Callable, Iterator
from http.client import HTTPMessage
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

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
from ie_serving.storage.backends import minio, s3
from ie_serving.storage.backends.storage_opener import open_storage
from ie_serving.storage.base import Entry, Storage
from tests.functional.storage.repositories import BUCKET, S3Repository, s3_admin, s3_environ
from tests.functional.storage.servers import (
    ADMIN,
    READER,
    SECRET,
    STRANGER,
    Answers,
    FakeGcs,
    Fault,
    Proxy,
    Reply,
    User,
    Weed,
)
from tests.process import free_ports
from tests.tables import named_by
from tests.unit.storage.contract import listed

OpenProxy = Callable[[int], Proxy]
Open = Callable[..., Storage]


def refused(kind: type[StorageError], phrases: list[str], action: Callable[[], object]) -> None:
    """Expect a refusal with all phrases, and no secret in it or in what led to it."""
    with pytest.raises(StorageError) as raised:
        action()
    assert type(raised.value) is kind, str(raised.value)
    for phrase in phrases:
        assert phrase in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.fixture
def opened(cache_dir: Path) -> Open:
    def open_with(url: str, **environ: str) -> Storage:
        return open_storage(url, storage_options(environ, Faults(), cache_dir=cache_dir))

    return open_with


@pytest.fixture(params=["s3", "minio"])
def repository(
    request: pytest.FixtureRequest, weed: Weed, proxied: OpenProxy, bucket: str, cache_dir: Path
) -> S3Repository:
    made = S3Repository(request.param, weed, proxied(weed.port), bucket, cache_dir)
    made.put("1/model.xml", b"x")
    return made


@pytest.mark.thinned
class TestS3Protocol:
    """SeaweedFS refuses as AWS does; both clients."""

    @pytest.mark.parametrize(
        ("user", "phrases"),
        [
            pytest.param(
                User(ADMIN.key, f"wrong-{SECRET}"),
                ["credentials were refused (SignatureDoesNotMatch)", "SECRET"],
                id="wrong secret",
            ),
            pytest.param(
                User("unknown-key", f"wrong-{SECRET}"),
                ["credentials were refused (InvalidAccessKeyId)", "ACCESS_KEY"],
                id="unknown key",
            ),
            pytest.param(
                STRANGER,
                ["permission denied to list (AccessDenied)", "s3:ListBucket"],
                id="no permission to list",
            ),
        ],
    )
    def test_each_wrong_user_is_refused_with_its_cause(
        self, repository: S3Repository, user: User, phrases: list[str]
    ) -> None:
        storage = repository.opened(user)
        refused(Unauthorized, ["cannot list", *phrases], storage.directories)

    def test_no_permission_to_read(self, repository: S3Repository) -> None:
        entries = listed(repository.storage, "1")
        storage = repository.opened(STRANGER)

        def read() -> None:
            with storage.copy("1", entries):
                pass

        words = ["cannot read 1/model.xml", "permission denied to read", "s3:GetObject"]
        refused(Unauthorized, words, read)

    def test_a_reader_needs_no_more_than_to_list_and_read(self, repository: S3Repository) -> None:
        storage = repository.opened(READER)
        assert storage.directories() == ["1"]
        with storage.copy("1", listed(storage, "1")) as copy:
            assert (copy / "model.xml").read_bytes() == b"x"

    def test_a_missing_bucket_and_a_missing_prefix_are_told_apart(
        self, repository: S3Repository, opened: Open
    ) -> None:
        environ = s3_environ(repository.scheme, repository.proxy.url, ADMIN)
        nowhere = opened(f"{repository.scheme}://no-such-bucket/m", **environ)
        refused(Missing, ["the bucket does not exist (NoSuchBucket)"], nowhere.directories)
        url = repository.storage.url.replace("base path", "other")
        words = ["no object in bucket 'models' begins with", "/other/m/'"]
        refused(Missing, words, opened(url, **environ).directories)

    @pytest.mark.parametrize(
        ("endpoint", "kind", "words"),
        [
            ("http://no-such-host.invalid", Unreachable, ["does not resolve (DNS)", "_ENDPOINT"]),
            ("http://127.0.0.1:{closed}", Unreachable, ["was refused", "_ENDPOINT"]),
            ("https://127.0.0.1:{open}", Untrusted, ["does not speak TLS"]),
        ],
    )
    def test_each_trouble_of_the_network_has_its_words(
        self, repository: S3Repository, endpoint: str, kind: type[StorageError], words: list[str]
    ) -> None:
        closed = free_ports(1)[0]
        endpoint = endpoint.format(closed=closed, open=repository.proxy.port)
        refused(kind, words, repository.opened(endpoint=endpoint).directories)

    @named_by(
        "code",
        ("status", "code", "kind", "words"),
        [
            (503, "SlowDown", Throttled, ["asks to slow down", "poll less often"]),
            (429, "TooManyRequests", Throttled, ["asks to slow down"]),
            (500, "InternalError", Unreachable, ["the store failed (500 InternalError)"]),
            (403, "RequestTimeTooSkewed", Unauthorized, ["clocks", "set this machine's clock"]),
            (400, "ExpiredToken", Unauthorized, ["credentials were refused (ExpiredToken)"]),
            (400, "IllegalLocationConstraintException", StorageError, ["region", "_REGION"]),
        ],
    )
    @pytest.mark.parametrize("scheme", ["s3", "minio"])
    def test_answers(
        self,
        opened: Open,
        scheme: str,
        status: int,
        code: str,
        kind: type[StorageError],
        words: list[str],
    ) -> None:
        body = (
            f"<?xml version='1.0'?><Error><Code>{code}</Code>"
            f"<Message>{SECRET}</Message><StringToSign>{SECRET}</StringToSign></Error>"
        )
        reply = (status, {"Content-Type": "application/xml"}, body.encode())
        with Answers(lambda method, path, headers: reply) as store:
            environ = s3_environ(scheme, store.url, ADMIN)
            storage = opened(f"{scheme}://bucket-{code.lower()}/m", **environ)
            with pytest.raises(kind) as raised:
                storage.directories()
        for word in words:
            assert word in str(raised.value)
        assert SECRET not in str(raised.value)

    @pytest.mark.parametrize("scheme", ["s3", "minio"])
    def test_silence_is_a_time_out(
        self, opened: Open, proxied: OpenProxy, scheme: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (minio, s3):
            monkeypatch.setattr(module, "READ_TIMEOUT_S", 0.2)
        proxy = proxied(1)
        proxy.choose = lambda line: Fault(hang=True)
        storage = opened(f"{scheme}://silent/m", **s3_environ(scheme, proxy.url, ADMIN))
        refused(Unreachable, ["no answer in time (time-out)"], storage.directories)

    def test_a_public_bucket_is_read_anonymously(
        self, repository: S3Repository, weed: Weed, opened: Open
    ) -> None:
        environ = {"S3_ENDPOINT": weed.url, "S3_ANONYMOUS": "1"}
        environ |= {"MINIO_ENDPOINT": weed.url}
        storage = opened(repository.storage.url, **environ)
        refused(Unauthorized, ["refuses requests without credentials"], storage.directories)
        arn = f"arn:aws:s3:::{BUCKET}"
        statements = [
            {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": resource}
            for action, resource in (("s3:GetObject", f"{arn}/*"), ("s3:ListBucket", arn))
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        s3_admin(weed).put_bucket_policy(Bucket=BUCKET, Policy=policy)
        try:
            assert storage.directories() == ["1"]
            with storage.copy("1", listed(storage, "1")) as copy:
                assert (copy / "model.xml").read_bytes() == b"x"
        finally:
            s3_admin(weed).delete_bucket_policy(Bucket=BUCKET)

    def test_no_credentials_anywhere_is_anonymous_and_said(
        self,
        weed: Weed,
        opened: Open,
        monkeypatch: pytest.MonkeyPatch,
        log_without_secrets: list[str],
        tmp_path: Path,
    ) -> None:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        storage = opened("s3://nobody/m", S3_ENDPOINT=weed.url)
        with pytest.raises(StorageError):
            storage.directories()
        assert any("no AWS credentials found" in line for line in log_without_secrets)

    def test_rotated_credentials_are_read_after_a_refusal(
        self,
        weed: Weed,
        bucket: str,
        opened: Open,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """A Secret mounted as the shared credentials file, changed while the server runs."""
        s3_admin(weed).create_bucket(Bucket=bucket)
        s3_admin(weed).put_object(Bucket=bucket, Key="m/1/model.xml", Body=b"x")
        file = tmp_path / "credentials"
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        text = "[default]\naws_access_key_id={}\naws_secret_access_key={}\n"
        file.write_text(text.format(ADMIN.key, f"old-{SECRET}"))
        storage = opened(f"s3://{bucket}/m", S3_ENDPOINT=weed.url)
        refused(Unauthorized, ["SignatureDoesNotMatch"], storage.directories)
        file.write_text(text.format(ADMIN.key, ADMIN.secret))
        assert storage.directories() == ["1"]


@pytest.fixture(scope="module")
def secure_weed(
    authority: tuple[Path, Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Weed]:
    """SeaweedFS with TLS, and a model in the bucket `secure`."""
    with Weed(tmp_path_factory.mktemp("secure"), *authority[1:]) as server:
        admin = s3_admin(server, str(authority[0]))
        admin.create_bucket(Bucket="secure")
        admin.put_object(Bucket="secure", Key="m/1/model.xml", Body=b"x")
        yield server


class TestTls:
    """Stores with a certificate of an own authority."""

    @pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
    @pytest.mark.parametrize(
        ("scheme", "setting", "switch"),
        [
            ("s3", "AWS_CA_BUNDLE", "S3_VERIFY_SSL"),
            ("minio", "MINIO_CA_BUNDLE", "MINIO_VERIFY_SSL"),
        ],
    )
    def test_a_store_of_s3_is_trusted_by_its_authority_alone(
        self,
        secure_weed: Weed,
        authority: tuple[Path, Path, Path],
        opened: Open,
        scheme: str,
        setting: str,
        switch: str,
    ) -> None:
        url, environ = f"{scheme}://secure/m", s3_environ(scheme, secure_weed.url, ADMIN)
        refused(Untrusted, ["certificate was refused", setting], opened(url, **environ).directories)
        trusting = opened(url, **environ, **{setting: str(authority[0])})
        assert trusting.directories() == ["1"]
        with trusting.copy("1", listed(trusting, "1")) as copy:
            assert (copy / "model.xml").read_bytes() == b"x"
        assert opened(url, **environ, **{switch: "0"}).directories() == ["1"]

    def test_google_s_store_is_trusted_by_its_authority_alone(
        self,
        authority: tuple[Path, Path, Path],
        opened: Open,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with FakeGcs(*authority[1:]) as server:
            storage = opened("gs://secure/m", STORAGE_EMULATOR_HOST=server.url)
            words = ["certificate was refused", "REQUESTS_CA_BUNDLE"]
            refused(Untrusted, words, storage.directories)
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority[0]))
            refused(Missing, ["the bucket does not exist"], storage.directories)


class TestGcs:
    """A stub of the three JSON calls for what no emulator refuses."""

    ENTRY = Entry("1/model.xml", 1, "7", 0.0)

    @pytest.fixture
    def refusing(self, opened: Open, bucket: str) -> Iterator[Callable[[int, str], Storage]]:
        """Open a store that answers every call whose path contains a text with a status."""
        self.status, self.only = 200, ""

        def answer(method: str, path: str, headers: HTTPMessage) -> Reply:
            if self.only in path:
                error = {"error": {"code": self.status, "message": f"refused {SECRET}"}}
                return self.status, {"Content-Type": "application/json"}, json.dumps(error).encode()
            return 200, {"Content-Type": "application/json"}, b"{}"

        with Answers(answer) as store:

            def open_refusing(status: int, only: str) -> Storage:
                self.status, self.only = status, only
                return opened(f"gs://{bucket}/m", STORAGE_EMULATOR_HOST=store.url)

            yield open_refusing

    @named_by(
        "status",
        ("status", "kind", "words"),
        [
            (401, Unauthorized, ["refuses requests without credentials (401)", "GOOGLE_APPL"]),
            (403, Unauthorized, ["refuses requests without credentials (403)"]),
            (404, Missing, ["the bucket does not exist (404)"]),
            (429, Throttled, ["asks to slow down", "(429)"]),
            (503, Throttled, ["asks to slow down", "(503)"]),
            (500, Unreachable, ["the store failed (500)"]),
            (400, StorageError, ["the store refused the request (400)"]),
        ],
    )
    def test_each_refusal_of_a_listing_has_its_words(
        self,
        refusing: Callable[[int, str], Storage],
        status: int,
        kind: type[StorageError],
        words: list[str],
    ) -> None:
        storage = refusing(status, "/o?")
        with pytest.raises(kind) as raised:
            storage.directories()
        for word in ["cannot list", *words]:
            assert word in str(raised.value)
        assert SECRET not in str(raised.value)

    @pytest.mark.parametrize(
        ("status", "kind"), [(404, EntryChanged), (412, EntryChanged), (403, Unauthorized)]
    )
    def test_each_refusal_of_a_read_has_its_kind(
        self,
        refusing: Callable[[int, str], Storage],
        status: int,
        kind: type[StorageError],
    ) -> None:
        storage = refusing(status, "alt=media")
        with (
            pytest.raises(kind, match=r"cannot read 1/model\.xml"),
            storage.copy("1", (self.ENTRY,)),
        ):
            pass

    def test_pages_of_a_listing_are_all_read(self, opened: Open, bucket: str) -> None:
        def answer(method: str, path: str, headers: HTTPMessage) -> Reply:
            last = "pageToken=next" in path
            first = {"prefixes": ["m/1/"], "nextPageToken": "next"}
            page = {"prefixes": ["m/2/"]} if last else first
            return 200, {"Content-Type": "application/json"}, json.dumps(page).encode()

        with Answers(answer) as store:
            storage = opened(f"gs://{bucket}/m", STORAGE_EMULATOR_HOST=store.url)
            assert storage.directories() == ["1", "2"]


class TestGoogleCredentials:
    """A service account's key file, exchanged for tokens at a stub of Google's token endpoint."""

    @pytest.fixture
    def issued(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open, bucket: str
    ) -> Iterator[Callable[[int], Storage]]:
        self.token_status = 200
        self.seen: list[str] = []

        def answer(method: str, path: str, headers: HTTPMessage) -> Reply:
            if path == "/token":
                granted = {"access_token": f"ya29.{SECRET}", "expires_in": 3600}
                denied = {"error": "invalid_grant", "error_description": f"bad {SECRET}"}
                body = granted if self.token_status == 200 else denied
                reply = json.dumps(body).encode()
                return self.token_status, {"Content-Type": "application/json"}, reply
            self.seen.append(headers["Authorization"])
            return 403, {"Content-Type": "application/json"}, b'{"error": {"code": 403}}'

        with Answers(answer) as store:
            file = tmp_path / "key.json"
            file.write_text(json.dumps(service_account(f"{store.url}/token")))
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
            monkeypatch.setenv("API_ENDPOINT_OVERRIDE", store.url)

            def open_with(status: int) -> Storage:
                self.token_status = status
                return opened(f"gs://{bucket}/m", GOOGLE_APPLICATION_CREDENTIALS=str(file))

            yield open_with

    def test_an_account_without_permission_is_told_the_role_that_it_needs(
        self, issued: Callable[[int], Storage]
    ) -> None:
        words = ["permission denied to list (403)", "roles/storage.objectViewer"]
        refused(Unauthorized, words, issued(200).directories)
        assert self.seen == [f"Bearer ya29.{SECRET}"]

    def test_a_revoked_key_is_refused_and_not_told(self, issued: Callable[[int], Storage]) -> None:
        with pytest.raises(Unauthorized, match="credentials were refused") as raised:
            issued(400).directories()
        assert SECRET not in str(raised.value)
        assert self.seen == []

    def test_a_key_file_that_is_none_is_told_by_its_variable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
    ) -> None:
        (tmp_path / "key.json").write_text("{}")
        file = str(tmp_path / "key.json")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
        storage = opened("gs://bucket/m", GOOGLE_APPLICATION_CREDENTIALS=file)
        words = ["no usable credentials", "GOOGLE_APPLICATION_CREDENTIALS"]
        refused(Unauthorized, words, storage.directories)


def service_account(token_uri: str) -> dict[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account",
        "client_email": "server@project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "token_uri": token_uri,
        "project_id": "project",
    }
