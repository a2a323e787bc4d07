"""Lesser kinds of CPU that this one can stand for: `make cpu_kinds` tests the engine as each.

OpenVINO chooses its code, and where no precision is set bf16 or float32, by the instructions that
oneDNN may use. `ONEDNN_MAX_CPU_ISA` bounds these. Source: oneDNN, "CPU Dispatcher Control".
A CPU with bf16 stands for none without: OpenVINO 2026.4 chooses bf16 by the CPU, whatever oneDNN
may use, and then oneDNN has no code for it ("could not create a primitive descriptor").
"""

from pathlib import Path

BF16 = "AVX512_CORE_BF16"
KINDS = {
    "AVX2": {"avx2", "fma"},
    "AVX512_CORE": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    BF16: {"avx512_bf16"},
    "AVX512_CORE_AMX": {"amx_tile", "amx_bf16", "amx_int8"},
}
"""Flags of Linux that each kind has beside those of the one before, by oneDNN's name for it."""


def lesser_kinds(flags: set[str]) -> list[str]:
    """Name the kinds that a CPU with these flags contains, but for its own: the last one."""
    has: list[str] = []
    for name, needed in KINDS.items():
        if not needed <= flags:
            break
        has.append(name)
    lesser = has[:-1]
    return lesser[lesser.index(BF16) :] if BF16 in lesser else [] if BF16 in has else lesser


def _flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


if __name__ == "__main__":
    print(*lesser_kinds(_flags()))
