"""The settings of the local cache, and the base of the settings of each kind of store.

A store's client reads more variables by itself (boto3 its credential chain, google-auth its default
credentials, all of them the proxies); `docs/guide/stores.md` names them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import BYTES, REQUIRED, SettingKind
from ie_serving.core.values.hosts import host_of, is_public
from ie_serving.storage.base import Location, Remote

ANY_TEXT: Final = SettingKind(words.unchecked, "TEXT")
ANY_FILE: Final = SettingKind(words.unchecked, "FILE")
# A URL has too many right forms to check here; the client's error names the variable.
ENDPOINT: Final = SettingKind(words.unchecked, "HOST:PORT|URL")
# A fault would show the value.
SECRET: Final = SettingKind(words.unchecked, "SECRET")

StoreOptionsT = TypeVar("StoreOptionsT", bound="StoreOptions")


@dataclass(frozen=True, kw_only=True)
class StoreOptions(ABC):
    """The settings of one kind of store, and what the server needs to know of it.

    The modules of stores are imported at every start: they import their clients where they use
    them, since a client's import takes about 0.2 s and memory.
    """

    schemes: ClassVar[tuple[str, ...]]
    """Schemes of the URLs that it reads."""

    @classmethod
    def read(
        cls: type[StoreOptionsT],
        given: dict[str, Any],
        environ: Mapping[str, str],
        own_hosts_are_plain: bool,
    ) -> StoreOptionsT:
        """Make the options of the values of its variables.

        Args:
            given: the values, by the field of their setting.
            environ: the process's environment.
            own_hosts_are_plain: whether a private endpoint without a scheme is HTTP, as in OpenVINO
                Model Server; otherwise each endpoint without a scheme is HTTPS.
        """
        return cls(**given)

    @classmethod
    def location(cls, url: str, rest: str) -> Location:
        """Find the location that a URL names. `rest` is the part after `scheme://`.

        Raises:
            ConfigError: the URL names none, or has credentials in it.
        """
        return Location.parse(url, rest)

    def files(self) -> Mapping[str, str]:
        """Give the files that a setting may name, by its variable; empty where none is named."""
        return {}

    def lacks(self, location: Location) -> str:
        """Say which setting is missing for the location to be found; empty for none."""
        return ""

    @abstractmethod
    def open(self, location: Location) -> Remote:
        """Read the store at a location. Nothing is sent yet."""


def is_https(endpoint: str, own_hosts_are_plain: bool) -> bool:
    """Tell whether an endpoint without a scheme uses HTTPS."""
    return not own_hosts_are_plain or is_public(host_of(endpoint))


def with_scheme(endpoint: str, https: bool) -> str:
    """Put `http` or `https` before an endpoint without a scheme."""
    if not endpoint or "://" in endpoint:
        return endpoint
    return f"{'https' if https else 'http'}://{endpoint}"


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Settings of the local cache and of every kind of store."""

    cache_dir: Path = SettingKind(words.directory, "PATH").setting(
        REQUIRED,
        "directory for copies of remote repositories; when given, for compiled models too",
        "/var/cache/ie_serving",
        shown="ie_serving in the user's cache, copies only",
        ovms="cache_dir",
    )
    # No limit by default: evicting copies needed after the next restart is a worse surprise than a
    # full disk, which is reported.
    cache_size_bytes: int = BYTES.setting(
        0,
        "bytes at which the least recently used copies are evicted; 0 sets no limit",
        "10737418240",
    )
    # 400 kbit/s: below it a model of 100 MB takes more than half an hour, and an error is better
    # than that wait. Slower links exist, so the limit can be lowered.
    min_download_bytes_per_s: int = BYTES.setting(
        50_000,
        "bytes a second below which a download ends, to be tried again; 0 sets no limit",
        "5000",
        word="min_download_bytes_per_second",
    )
    """Bytes a second, averaged over a minute."""

    own: tuple[StoreOptions, ...] = ()
    """Options of kinds of store: at most one value of each type."""

    def of(self, kind: type[StoreOptionsT]) -> StoreOptionsT:
        """Give the options of a kind of store; its defaults where there are none."""
        return next((each for each in self.own if isinstance(each, kind)), None) or kind()
