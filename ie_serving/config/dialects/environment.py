"""Reads settings from variables of the environment, which hold for every command.

An empty variable counts as not set. A command reads the variables of the settings for which it has
no flag, or whose flag is not given.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ie_serving.config.schema.catalogue import STORES
from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import Setting, fields_of
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hosts import host_of, is_public
from ie_serving.storage.options import GcsOptions, MinioOptions, S3Options, StorageOptions

LOG_LEVEL = "LOG_LEVEL"
LOG_PATH = "LOG_PATH"
ENDPOINTS_OF_BOTO3 = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables that boto3 reads if no endpoint is given; the first that is set counts."""


def read(settings: Iterable[Setting], environ: Mapping[str, str], faults: Faults) -> dict[str, Any]:
    """Read the variables of `settings`.

    Args:
        settings: those whose variables count.
        environ: the process's environment.
        faults: takes the faults, by variable.

    Returns:
        Value of each valid setting, by its place.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        # Manifests and shells set a variable to nothing in order to unset it.
        name = next((name for name in setting.variables if environ.get(name)), None)
        if name is not None:
            value = faults.take(setting.reads or setting.parse, environ[name], name)
            found |= {} if value is None else {setting.place: value}
    return found


def warnings(environ: Mapping[str, str]) -> list[str]:
    """Give a warning for each variable that is accepted although its value is wrong."""
    given = environ.get(LOG_LEVEL)
    if not given:
        return []
    try:
        words.log_level(given, LOG_LEVEL)
    except ConfigError as error:
        return [f"{error}; INFO is used"]
    return []


def storage_options(
    environ: Mapping[str, str],
    faults: Faults,
    *,
    cache_dir: Path | None = None,
    own_hosts_are_plain: bool = False,
    **more: int,
) -> StorageOptions:
    """Read the connection options of each store.

    Args:
        environ: the process's environment.
        faults: takes the faults, by variable.
        cache_dir: None means `ie_serving` in the user's cache directory.
        own_hosts_are_plain: whether a private endpoint without a scheme is HTTP, as in OpenVINO
            Model Server; otherwise each endpoint without a scheme is HTTPS.
        more: other fields of the options, which have flags instead of variables.
    """
    found = read(STORES, environ, faults)
    return StorageOptions(
        cache_dir=cache_dir or _user_cache(environ),
        s3=S3Options(**_s3(fields_of("s3", found), environ, own_hosts_are_plain)),
        gcs=GcsOptions(**_gcs(fields_of("gcs", found))),
        minio=MinioOptions(**_minio(fields_of("minio", found))),
        **more,
    )


def _s3(
    given: dict[str, Any], environ: Mapping[str, str], own_hosts_are_plain: bool
) -> dict[str, Any]:
    endpoint = given.get("endpoint", "")
    https = given.pop("https", _is_https(endpoint, own_hosts_are_plain))
    endpoint = _with_scheme(endpoint, https)
    read_by_boto3 = next((name for name in ENDPOINTS_OF_BOTO3 if environ.get(name)), None)
    named = {"endpoint_variable": read_by_boto3} if read_by_boto3 and not endpoint else {}
    return {**given, "endpoint": endpoint, **named}


def _gcs(given: dict[str, Any]) -> dict[str, Any]:
    # The variable names an emulator; emulators on private hosts use HTTP.
    endpoint = given.get("endpoint", "")
    return {**given, "endpoint": _with_scheme(endpoint, _is_https(endpoint, True))}


# The explicit scheme of an endpoint takes precedence over the switch, since a proxy or another
# store may be behind it.
def _minio(given: dict[str, Any]) -> dict[str, Any]:
    """Split the endpoint: its scheme, if any, decides whether the store uses TLS."""
    secure = given.get("secure", True)
    scheme, _, host = _with_scheme(given.get("endpoint", ""), secure).partition("://")
    return {
        **given,
        "endpoint": host.rstrip("/"),
        "secure": scheme == "https" if host else secure,
    }


def _is_https(endpoint: str, own_hosts_are_plain: bool) -> bool:
    """Tell whether an endpoint without a scheme uses HTTPS."""
    return not own_hosts_are_plain or is_public(host_of(endpoint))


def _with_scheme(endpoint: str, https: bool) -> str:
    """Put `http` or `https` before an endpoint without a scheme."""
    if not endpoint or "://" in endpoint:
        return endpoint
    return f"{'https' if https else 'http'}://{endpoint}"


def _user_cache(environ: Mapping[str, str]) -> Path:
    """Source: XDG Base Directory Specification."""
    # The user of a container may have no home.
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/tmp") / ".cache")
    return Path(base) / "ie_serving"
