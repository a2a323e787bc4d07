"""All errors of the server, in one tree and independent of protocols.

    ServingError
    ├── InvalidRequest            the caller must change the request
    │   ├── UnknownEncoding       compressed in a way that the server does not know
    │   ├── InvalidTensor         a tensor that cannot be decoded or that the model cannot take
    │   ├── UnknownLabel          no version carries this label
    │   ├── UnknownMethod         no target has this method (`server/fronts/tfs/rest_routes.py`)
    │   ├── VersionOverflow       its number has over 64 bits (`server/fronts/tfs/rest_routes.py`)
    │   ├── UpgradeRequired       asks for no WebSocket (`server/transport/websocket.py`)
    │   └── RecordCutOff          a file ends within a record (`wire/tfs/prediction_log.py`)
    ├── NotFound                  no such servable, version or sequence
    │   └── SequenceElsewhere     another version has the sequence
    ├── AlreadyExists             the request begins what exists already
    ├── PreconditionFailed        well formed, but not in the present state of the server
    │   └── SequenceEnding        the sequence of this id has not ended yet
    ├── NotSupported              asks for what this server does not have
    ├── NotAvailable              will work later: loading, stopping
    │   ├── NotLoaded             loaded when it is asked for: await its load, and ask again
    │   ├── WorkerGone            another worker has died (`server/workers/questions.py`)
    │   └── WorkerSilent          another worker is stopped or hangs (`server/workers/member.py`)
    ├── Unauthenticated           no credentials, or unknown ones
    ├── Forbidden                 the server is configured not to do that, or not for this caller
    ├── QueueFull                 too many requests wait already
    │   └── BudgetFull            requests hold as much memory as permitted
    ├── DeadlineExceeded          the caller's time, or the server's limit, is over
    ├── RequestTooLarge           more bytes than the server takes
    ├── LoadFailed                a version could not be loaded (also the loader's own error)
    │   ├── NoModel               a file that is no model at all
    │   ├── VersionHeldBack       refused by a rule of its model, until something changes
    │   ├── NoSignatureServed     none of its signatures could be
    │   └── StepOptionsInvalid    options of a step in a graph (`engines/steps/declaration.py`)
    ├── StorageError              see below
    │   ├── Unreachable           DNS, refused connection, time-out
    │   ├── Untrusted             TLS
    │   ├── Unauthorized          credentials or permission
    │   ├── Missing               no such bucket, prefix or object
    │   │   ├── NotThereYet       may still be created, or mounted
    │   │   │   └── Emptied       all versions or models have vanished at once
    │   │   └── DirectoryGone     a model's directory has gone from a directory of models
    │   ├── Throttled             the store asks to slow down
    │   ├── EntryChanged          the object is no longer the one that was listed
    │   └── Corrupted             the bytes are not those that the store promised
    ├── VersionNotChosen          traffic is split: choose a version (`models/traffic/split.py`)
    ├── RowsLost                  a batch came back with other rows (`engines/layers/joining.py`)
    ├── WrongOutput               not what a kernel has declared (`engines/python/outputs.py`)
    ├── RefusedBySecond           by the second engine (`engines/verification/comparison.py`)
    ├── PortError                 a port cannot be bound (`server/process/ports.py`)
    └── ConfigError               faults of a command line or configuration, all of them

Private classes stay in their modules, as those of `compat/` do, and are not drawn.

`core/values/codes.py` maps these to gRPC codes, `server/status.py` those to HTTP codes. A message
says what was wrong, what was expected and what to do.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

WHOLE: Final = "ie-serving-error"
"""Header of REST and trailing metadata of gRPC: an error's whole text where the status has only
TensorFlow Serving's part (`AdvisedText`). Written with percent signs, as `grpc-message` is."""


class AdvisedText(str):
    """A text of TensorFlow Serving with what helps a person.

    Clients compare its texts as a whole, so they get `said` as the status, and all of it apart from
    the status. The log has all of it.

    Args of the constructor:
        whole: all of the text.
        said: TensorFlow Serving's part.
    """

    said: str

    def __new__(cls, whole: str, said: str) -> "AdvisedText":
        """See the class."""
        text = super().__new__(cls, whole)
        text.said = said
        return text

    def __reduce__(self) -> tuple[type["AdvisedText"], tuple[str, str]]:
        return type(self), (str(self), self.said)


def advised(said: str, advice: object) -> AdvisedText:
    """Append advice to a text of TensorFlow Serving."""
    return AdvisedText(f"{said}{advice}", said)


def within(before: str, error: "ServingError") -> AdvisedText:
    """Return the text of an error that begins with `before`."""
    return AdvisedText(f"{before}{error}", before + error.said)


def _said(text: object) -> str:
    return text.said if isinstance(text, AdvisedText) else str(text)


class ServingError(Exception):
    """Base of all errors whose text may be shown to a client.

    Its arguments are parts of the text; a `Hint` among them becomes words when the text is shown.

    Attributes:
        of_asked: a kernel or hook asked another model, which raised this.
    """

    of_asked = False

    def __str__(self) -> str:
        return "".join(map(str, self.args))

    @property
    def said(self) -> str:
        """The text without what stands in an `AdvisedText` after TensorFlow Serving's."""
        return "".join(map(_said, self.args))


class InvalidRequest(ServingError):
    """The request itself is wrong; sent again unchanged it fails again."""


class UnknownEncoding(InvalidRequest):
    """The request is compressed, or written, in a way that the server does not know."""


class InvalidTensor(InvalidRequest):
    """A tensor has a dtype, shape or content that the server or the model cannot take."""


class UnknownLabel(InvalidRequest):
    """The version label is not assigned."""


class NotFound(ServingError):
    """No such model, no such version of it, or no such sequence."""


class SequenceElsewhere(NotFound):
    """The version that the request names does not have the sequence; another one does.

    Attributes:
        version: the one with the sequence.
    """

    def __init__(self, text: str, version: int) -> None:
        super().__init__(text)
        self.version = version


class AlreadyExists(ServingError):
    """The request begins something that exists already."""


class PreconditionFailed(ServingError):
    """The request is well formed but does not fit the present state of the server."""


class SequenceEnding(PreconditionFailed):
    """A sequence cannot begin anew while the last request of the previous one is in progress."""


class NotSupported(ServingError):
    """The server does not have what the request asks for."""


class NotAvailable(ServingError):
    """The same request can succeed later."""


class NotLoaded(NotAvailable):
    """The model is loaded on demand, and is not in memory: await `load`, and ask again.

    Attributes:
        load: returns once the load has ended, well or not. Raises: NotLoaded, where that takes
            too long; BudgetFull, where there is no room.
    """

    def __init__(self, text: str, load: Callable[[], Awaitable[None]]) -> None:
        super().__init__(text)
        self.load = load


class Unauthenticated(ServingError):
    """The request has no credentials, or unknown ones."""


class Forbidden(ServingError):
    """The server is configured not to do what the request asks for, or not for its caller."""


class QueueFull(ServingError):
    """Too many requests wait already; the same request can succeed later."""


class BudgetFull(QueueFull):
    """Requests hold as much memory as permitted; the same request can succeed later."""


class DeadlineExceeded(ServingError):
    """The caller's deadline, or the server's own limit, has passed."""


class RequestTooLarge(ServingError):
    """The body is larger than the server's limit."""


class LoadFailed(ServingError):
    """A version could not be fetched, compiled or warmed up."""


class NoModel(LoadFailed):
    """A file is no model at all, so that no engine can run it."""


class VersionHeldBack(LoadFailed):
    """A version is refused by a rule of its model: another try without a change is in vain."""


class NoSignatureServed(LoadFailed):
    """No signature of a version can be served.

    Attributes:
        causes: the reason for each signature, by its name.
    """

    def __init__(self, text: str, causes: Mapping[str, str]) -> None:
        super().__init__(text)
        self.causes = causes


class StorageError(ServingError):
    """A model repository could not be listed or read."""


class Unreachable(StorageError):
    """The store did not answer: name resolution, connection or time-out."""


class Untrusted(StorageError):
    """The store's certificate was refused."""


class Unauthorized(StorageError):
    """The store refused the credentials, or they lack a permission."""


class Missing(StorageError):
    """The bucket, prefix or object does not exist."""


class NotThereYet(Missing):
    """A local directory does not exist.

    The server keeps waiting for it, since volumes are mounted and models copied while servers
    start. In a remote store, a missing path is usually a wrong name.
    """


class Emptied(NotThereYet):
    """All versions of a model, or all models of a directory, have vanished at once."""


class DirectoryGone(Missing):
    """The directory of a model has gone from its directory of models."""


class Throttled(StorageError):
    """The store asks for fewer requests."""


class EntryChanged(StorageError):
    """The object was replaced after it had been listed."""


class Corrupted(StorageError):
    """The bytes that arrived are not those that the store promised."""


class ConfigError(ServingError):
    """One or more faults of a command line or a configuration, reported together.

    Attributes:
        faults: each with its place, for example `model_config_list[1].config.nireq: ...`.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)

    @property
    def said(self) -> str:
        """See `ServingError`."""
        return "; ".join(map(_said, self.faults))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[Sequence[str]]]:
        return type(self), (self.faults,)


def placed(place: str, error: ServingError) -> ServingError:
    """Make an error of the same kind whose text begins with the place where it arose."""
    return _with_text(error, within(f"{place}: ", error))


def portable(error: Exception) -> ServingError:
    """Make an error that pickle can copy; of another tree, one that has its class in its text."""
    if isinstance(error, ConfigError):
        return error
    if isinstance(error, ServingError):
        return _with_text(error, within("", error))
    return ServingError(f"{type(error).__name__}: {error}")


def _with_text(error: ServingError, text: str) -> ServingError:
    # Its class, or the nearest base class whose constructor takes only a text.
    plain = next(kind for kind in type(error).__mro__ if "__init__" not in vars(kind))
    found = plain(text)
    assert isinstance(found, ServingError)  # which has no constructor of its own
    return found


def causes(error: ServingError) -> Sequence[object]:
    """Return the lines that report `error`: the faults of a configuration, or the error itself."""
    return error.faults if isinstance(error, ConfigError) else (error,)
