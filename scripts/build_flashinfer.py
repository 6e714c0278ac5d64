"""Build the FlashInfer kernels that the solution `flashinfer` asks for on a Hopper GPU.

    python scripts/build_flashinfer.py FOLDER [--headers FOLDER] [--jobs N]

Needs nvcc (of CUDA_HOME, or the first on the path) and an installed flashinfer-python, no GPU.
Writes FOLDER/NAME/NAME.so, stripped: copied to flashinfer/data/aot of the package, FlashInfer loads
them instead of compiling. Of attention kernels only the masks and layouts in use are compiled; the
others answer "not supported".
"""

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PREFILL = {
    ("fa2", 64): {"paged_0", "paged_1"},
    ("fa2", 128): {"paged_0", "paged_1"},
    ("fa2", 256): {"paged_0", "paged_1"},
    ("fa3", 64): {"paged_1"},
    ("fa3", 128): {"paged_1", "ragged_0"},
    ("fa3", 256): {"paged_1"},
}
"""Kernels in use by backend and head size: layout of keys, then 0 for no mask, 1 for causal."""
LATENT = (512, 64)
PARAMETERS = {"fa2": "Params params, typename Params::DTypeO*, float*", "fa3": "Params& params"}
TEMPLATES = {
    "fa2": "uint32_t, uint32_t, uint32_t, PosEncodingMode, bool, MaskMode",
    "fa3": "uint32_t, uint32_t, MaskMode, bool, bool",
}


def main() -> None:
    """Read the arguments and build."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--headers", type=Path, help="cublasLt.h and curand.h, if nvcc lacks them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as stubs:
        _environment(Path(stubs), chosen.headers, chosen.jobs)
        from flashinfer.jit.core import build_jit_specs  # reads the settings when imported

        specs = list(_specs())
        build_jit_specs(specs, verbose=False, skip_prebuilt=False)
        for spec in specs:
            target = chosen.folder / spec.name / f"{spec.name}.so"
            target.parent.mkdir(parents=True, exist_ok=True)
            strip = ["strip", "-o", target, spec.jit_library_path]
            subprocess.run(strip, check=True)
            print(f"{target.stat().st_size >> 10:6d} KiB  {spec.name}", flush=True)


def _environment(stubs: Path, headers: Path | None, jobs: int) -> None:
    """Settings that FlashInfer reads when imported; libcuda, which it links, needs a driver."""
    source = stubs / "stub.c"
    source.write_text("int no_driver;\n")
    link = [
        "cc",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
        "-o",
        stubs / "libcuda.so",
        source,
    ]
    subprocess.run(link, check=True)
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = "9.0a"
    os.environ["FLASHINFER_EXTRA_LDFLAGS"] = f"-L{stubs}"
    os.environ["FLASHINFER_WORKSPACE_BASE"] = str(stubs)
    os.environ["MAX_JOBS"] = str(jobs)
    if headers is not None:
        os.environ["FLASHINFER_EXTRA_CUDAFLAGS"] = f"-isystem {headers.resolve()}"


def _specs() -> Iterator[Any]:
    import torch
    from flashinfer.jit.activation import gen_act_and_mul_module
    from flashinfer.jit.attention import gen_batch_mla_module, gen_batch_prefill_module
    from flashinfer.jit.norm import gen_norm_module
    from flashinfer.jit.page import gen_page_module
    from flashinfer.jit.rope import gen_rope_module
    from flashinfer.jit.sampling import gen_sampling_module

    yield gen_act_and_mul_module("silu")
    for small in (gen_norm_module, gen_page_module, gen_rope_module, gen_sampling_module):
        yield small()
    dtypes = (torch.bfloat16, torch.bfloat16, torch.bfloat16, torch.int32)
    for (backend, dim), used in PREFILL.items():
        spec = gen_batch_prefill_module(backend, *dtypes, dim, dim, 0, False, False, False)
        for source in spec.sources:
            found = re.search(r"(paged|ragged).*_kernel_mask_(\d)", source.stem)
            if found and "_".join(found.groups()) not in used:
                source.write_text(_unsupported(source.read_text(), backend))
        yield spec
    yield gen_batch_mla_module("fa3", *dtypes, *LATENT, False)


def _unsupported(source: str, backend: str) -> str:
    """The same instantiations of a function that does nothing but say so."""
    includes = ["flashinfer/attention/mask.cuh", "flashinfer/pos_enc.cuh"]
    config = re.search(r'#include "(.*_config\.inc)"', source)
    name = re.search(r"BatchPrefillWith\w+KVCacheDispatched", source)
    if config is None or name is None:
        raise SystemExit("this FlashInfer has other kernel files than 0.5.3")
    body = re.sub(r"#include .*\n", "", source)
    return "\n".join(
        [
            *(f"#include <{one}>" for one in includes),
            f'#include "{config[1]}"',
            "namespace flashinfer {",
            f"template <{TEMPLATES[backend]}, typename Variant, typename Params>",
            f"cudaError_t {name[0]}({PARAMETERS[backend]}, bool, cudaStream_t) {{",
            "  return cudaErrorNotSupported;",
            "}",
            "}",
            body,
        ]
    )


if __name__ == "__main__":
    main()
