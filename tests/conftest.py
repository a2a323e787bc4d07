"""Settings of all tests, and the output of their processes in the report of a failure."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests import distribution, forking, process, thinning
from tests.exporting import export

# What a shell starts in the background ignores Ctrl-C, and so would the processes of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Read when the first of these libraries is imported, by a test.
os.environ.update(process.ONE_THREAD)

# TensorFlow is the judge, so it computes by its own kernels: on some CPUs those of oneDNN end the
# process at shapes that they do not take.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

# The machines are shared: how long one example takes says nothing about the code. Nor does how many
# examples a filter drops in one run, which is chance.
settings.register_profile(
    "shared machines",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("thorough", settings.get_profile("shared machines"), max_examples=500)
settings.register_profile("few", settings.get_profile("shared machines"), max_examples=25)
settings.load_profile("few")
"""25 examples of each property, others at each run; `make fuzz` takes `thorough`."""


@pytest.fixture(scope="session")
def odd_exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SavedModels with odd signatures and files, as `odd_exports.py` describes them."""
    script = Path(__file__).with_name("odd_exports.py")
    return export(script, tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="session")
def lite_exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TFLite models that engines answer otherwise, as `lite_exports.py` describes them."""
    script = Path(__file__).with_name("lite_exports.py")
    return export(script, tmp_path_factory.mktemp("lite"))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Let no garbage collection look at what the collection of tests makes, TensorFlow included.

    That is millions of objects, nearly all of which stay: each `gc.collect()` of a test took about
    a second of processor time to look through them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # what is marked here is left out behind it
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    thinning.thin(items)


def pytest_sessionfinish() -> None:
    forking.end()


def pytest_runtest_setup(item: pytest.Item) -> None:
    process.forget_ended()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After each file, let no later garbage collection look at what has stayed of its tests.

    In a process that has run half of all files each `gc.collect()` of a test took 0.8 s.
    """
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.failed:
        report.sections += process.report()
    return report  # type: ignore[return-value]


def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis draw no constants of the package, but in `make fuzz`.

    It would read them from all 700 modules, for up to 10 s in each process.
    """
    if not config.getoption("--hypothesis-profile"):
        providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes", type=int, default=0, help="run files of tests side by side in so many forks"
    )


def pytest_collectreport(report: pytest.CollectReport) -> None:
    distribution.look_for_threads(report.nodeid)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.processes or option.collectonly or session.testsfailed:
        return None
    return distribution.Run(session, option.processes).run()
