"""A share of the requests is recorded, and the files are what a warm-up and a replay take."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, Server, config_flag
from tests.functional.test_digits import IMAGES, over_grpc, over_rest
from tests.process import ran, until


def recording(folder: Path, serve: Serve, base_path: Path = SAMPLE, **more: object) -> Server:
    """Serve the digits; every request is recorded in `folder`."""
    prefix = str(folder / "digits")
    entry = {
        "name": "digits",
        "base_path": str(base_path),
        "inference_precision": "f32",
        "logging_config": {
            "log_collector_config": {"type": "tfrecord", "filename_prefix": prefix},
            "sampling_config": {"sampling_rate": 1},
            **more,
        },
    }
    return serve("ie_serving", "config", config_flag(folder / "config.json", entry))


def written(server: Server, number: int) -> None:
    """Wait until so many requests are in the files."""
    series = 'ie_serving_requests_recorded_total{model_name="digits"}'
    until(lambda: server.sample(series) >= number)


def logs(folder: Path) -> list[prediction_log_pb2.PredictionLog]:
    """Read all records as TensorFlow does, in the order of the files' numbers."""
    files = sorted(folder.glob("*.tfrecord"), key=lambda f: int(f.stem.rpartition("-")[2]))
    records = (each.numpy() for file in files for each in tf.data.TFRecordDataset(str(file)))
    return [prediction_log_pb2.PredictionLog.FromString(each) for each in records]


def replay(file: Path, *flags: str) -> CompletedProcess[str]:
    return ran("ie_serving", "replay", file, *flags, patience_s=120.0)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server that records, and a copy of its file with two requests."""
    folder = tmp_path_factory.mktemp("recorded")
    with ExitStack() as opened:
        server = recording(folder, lambda *words: opened.enter_context(Server(*words)).ready())
        over_grpc(server, 2, IMAGES[:2])
        over_rest(server, 2, IMAGES[2:3])
        written(server, 2)
        (file,) = folder.glob("*.tfrecord")
        (folder / "kept").mkdir()
        yield server, Path(shutil.copy(file, folder / "kept"))


@pytest.fixture
def recorded(two: tuple[Server, Path], tmp_path: Path) -> tuple[Server, Path]:
    server, file = two
    return server, Path(shutil.copy(file, tmp_path))


def test_tensorflow_reads_the_records_of_both_interfaces(
    recorded: tuple[Server, Path], tmp_path: Path
) -> None:
    server, _ = recorded
    answers = [over_grpc(server, 2, IMAGES[:2]), over_grpc(server, 2, IMAGES[2:3])]
    asked = (IMAGES[:2], IMAGES[2:3])
    for log, images, answer in zip(logs(tmp_path)[:2], asked, answers, strict=True):
        spec = log.log_metadata.model_spec
        assert (spec.name, spec.version.value) == ("digits", 2)
        assert spec.signature_name == log.predict_log.request.model_spec.signature_name
        assert log.log_metadata.sampling_config.sampling_rate == 1
        assert abs(log.log_metadata.timestamp_secs - time.time()) < 600
        inputs, outputs = log.predict_log.request.inputs, log.predict_log.response.outputs
        np.testing.assert_array_equal(tf.make_ndarray(inputs["image"]), np.float32(images))
        found = tf.make_ndarray(outputs["probabilities"])
        np.testing.assert_allclose(found, answer["probabilities"], atol=1e-6)


def test_a_replay_tells_answers_as_recorded_from_others(
    recorded: tuple[Server, Path], tmp_path: Path
) -> None:
    server, growing = recorded
    file = tmp_path / "kept"  # since a replay to the server that records is recorded, too
    shutil.copy(growing, file)
    same = replay(file, "--to", f"localhost:{server.port}", "--tolerance", "0.01")
    assert (same.returncode, same.stderr) == (0, "")
    assert "2 requests, 0 answered otherwise; p50 " in same.stdout
    other = tmp_path / "other"
    shutil.copytree(SAMPLE / "1", other / "1")
    drifted = replay(file, "--model", str(other), "--tolerance", "0.0001")
    assert drifted.returncode == 1, drifted.stderr
    assert 'record 0: output "' in drifted.stdout
    assert "2 requests, 2 answered otherwise" in drifted.stdout
    unknown = replay(file, "--to", f"localhost:{server.port}", "--model_name", "other")
    assert unknown.returncode == 1
    assert "record 0: is refused: " in unknown.stdout


def test_a_replay_serves_a_directory_of_versions_by_itself(recorded: tuple[Server, Path]) -> None:
    found = replay(recorded[1], "--model", str(SAMPLE), "--tolerance", "0.02")
    assert (found.returncode, found.stderr) == (0, "")
    assert "2 requests, 0 answered otherwise" in found.stdout


def test_a_replay_leaves_out_a_record_that_is_still_being_written(
    recorded: tuple[Server, Path], tmp_path: Path
) -> None:
    server, growing = recorded
    content = growing.read_bytes()
    (tmp_path / "cut").write_bytes(content[:-1])
    found = replay(tmp_path / "cut", "--to", f"localhost:{server.port}", "--tolerance", "0.01")
    assert (found.returncode, found.stderr) == (0, "")
    assert "ends in the middle of record 1, which is left out\n" in found.stdout
    assert "1 requests, 0 answered otherwise" in found.stdout
    (tmp_path / "cut").write_bytes(content[:100])
    found = replay(tmp_path / "cut", "--to", f"localhost:{server.port}")
    assert found.returncode == 2
    assert "the records end in the middle of one" in found.stderr


@pytest.mark.parametrize("version", ["1", "other"])
def test_a_replay_says_why_a_directory_is_not_served(
    recorded: tuple[Server, Path], tmp_path: Path, version: str
) -> None:
    (tmp_path / "broken" / version).mkdir(parents=True)
    (tmp_path / "broken" / version / "model.onnx").write_bytes(b"no model")
    found = replay(recorded[1], "--model", str(tmp_path / "broken"))
    assert found.returncode == 2
    cause = "version 1 cannot serve: " if version == "1" else "has no numbered versions"
    assert cause in found.stderr


def test_a_replay_shows_what_a_server_says_that_ends(recorded: tuple[Server, Path]) -> None:
    found = replay(recorded[1], "--model", str(SAMPLE), "--model_name", "a" * 20_000)
    assert found.returncode == 2
    assert "the server for --model has ended; it said: " in found.stderr
    assert "--model_name" in found.stderr.partition("it said: ")[2]


def test_a_server_that_cannot_be_reached_is_no_drift(recorded: tuple[Server, Path]) -> None:
    for target in ("localhost:1", "nowhere.invalid:9000"):
        found = replay(recorded[1], "--to", target, "--timeout_seconds", "20")
        assert (found.returncode, found.stdout) == (3, ""), found
        assert target in found.stderr


@pytest.mark.parametrize(
    ("content", "cause"),
    [(b"no records", "TFRecord"), (b"", "has 0 records; expected a Predict with its answer")],
)
def test_a_replay_refuses_what_is_no_recording(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "file").write_bytes(content)
    found = replay(tmp_path / "file", "--to", "localhost:1")
    assert found.returncode == 2
    assert cause in found.stderr


def test_a_replay_refuses_an_answer_that_is_damaged(tmp_path: Path) -> None:
    log = prediction_log_pb2.PredictionLog()
    answer = tf.make_tensor_proto(np.zeros(3, np.float32))
    answer.tensor_shape.dim[0].size = 7
    log.predict_log.response.outputs["y"].CopyFrom(answer)
    with tf.io.TFRecordWriter(str(tmp_path / "file")) as file:
        file.write(log.SerializeToString())
    found = replay(tmp_path / "file", "--to", "localhost:1")
    assert found.returncode == 2
    assert "the answer of record 0: tensor parsing error: y: tensor_content has" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_recording_warms_up_the_next_version(
    recorded: tuple[Server, Path], tmp_path: Path, serve: Serve
) -> None:
    version = tmp_path / "warm" / "1"
    shutil.copytree(SAMPLE / "2", version)
    (version / "assets.extra").mkdir()
    shutil.copy(recorded[1], version / "assets.extra" / "tf_serving_warmup_requests")
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={version.parent}")
    assert "warm-up replayed model=digits version=1 records=2" in server.log


def test_a_warm_up_is_not_recorded(
    recorded: tuple[Server, Path], tmp_path: Path, serve: Serve
) -> None:
    version = tmp_path / "warm" / "2"
    shutil.copytree(SAMPLE / "2", version)
    (version / "assets.extra").mkdir()
    shutil.copy(recorded[1], version / "assets.extra" / "tf_serving_warmup_requests")
    (tmp_path / "again").mkdir()
    server = recording(tmp_path / "again", serve, version.parent)
    assert "warm-up replayed model=digits version=2 records=2" in server.log
    over_grpc(server, 2, IMAGES[:1])
    written(server, 1)
    assert len(logs(tmp_path / "again")) == 1


def test_files_are_rotated_and_inputs_left_out(tmp_path: Path, serve: Serve) -> None:
    server = recording(tmp_path, serve, max_file_bytes=1, drop_inputs=["image"])
    for number in range(3):
        over_grpc(server, 2, IMAGES[number : number + 1])
    written(server, 3)
    assert len(list(tmp_path.glob("digits-*.tfrecord"))) == 3
    for log in logs(tmp_path):
        (name, left_out), *others = log.predict_log.request.inputs.items()
        assert (name, others, left_out.dtype) == ("image", [], tf.float32.as_datatype_enum)
        assert left_out.tensor_shape.unknown_rank
        assert left_out.ByteSize() == 6  # no values
        assert log.predict_log.response.outputs
    file = next(tmp_path.glob("digits-*.tfrecord"))
    for target in ("--to", f"localhost:{server.port}"), ("--model", str(SAMPLE)):
        refused = replay(file, *target)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "record 0 has no values of image, which drop_inputs" in refused.stderr


def test_a_name_of_no_input_among_those_left_out_is_refused(tmp_path: Path) -> None:
    entry = {
        "name": "digits",
        "base_path": str(SAMPLE),
        "logging_config": {
            "log_collector_config": {"type": "tfrecord", "filename_prefix": str(tmp_path / "x")},
            "sampling_config": {"sampling_rate": 1},
            "drop_inputs": ["imag"],
        },
    }
    found = ran("ie_serving", "check", config_flag(tmp_path / "c.json", entry), patience_s=120.0)
    assert found.returncode == 1
    assert "drop_inputs of logging_config names imag" in found.stdout
    assert "the model's inputs are image: correct the name" in found.stdout


def test_a_disk_that_refuses_fails_no_request(tmp_path: Path, serve: Serve) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    server = recording(gone, serve)
    shutil.rmtree(gone)
    gone.write_text("a file in the place of the directory")
    for number in range(3):
        over_grpc(server, 2, IMAGES[number : number + 1])
    series = 'ie_serving_requests_not_recorded_total{model_name="digits",reason="disk"}'
    until(lambda: server.sample(series) >= 3)
    assert server.log.count("requests not recorded") == 1
