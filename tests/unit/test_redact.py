"""Redaction: what goes, what stays, and that no table is left out."""

from __future__ import annotations

import time

import polars as pl
import pytest

from solscope.profile import ProfileWarning
from solscope.redact import KINDS, Redactor, module_file, redact, redactor_for
from tests.making import event, profile

FILES = {
    "/home/alice/x/vllm/worker.py": "vllm/worker.py",
    "/home/alice/vllm/vllm/worker.py": "vllm/worker.py",
    "/build/sglang/python/sglang/srt/server.py": "sglang/srt/server.py",
    "/opt/env/lib/python3.12/site-packages/acme/run.py": "acme/run.py",
    "/usr/lib/python3.12/threading.py": "threading.py",
    "/home/alice/run.py": "run.py",
    "workspace/alice/run.py": "run.py",
    "C:\\Users\\bob\\run.py": "run.py",
    "vllm/model_executor/layers/torch/x.py": "vllm/model_executor/layers/torch/x.py",
    "acme/run.py": "acme/run.py",
    "run.py": "run.py",
}


@pytest.mark.parametrize("file", FILES)
def test_files_become_relative_to_their_package(file: str) -> None:
    assert module_file(file) == FILES[file]


GONE = {
    "/home/alice/x/vllm/worker.py(12): f": ("vllm/worker.py(12): f", "path"),
    "load /data/models/acme 70b/w.bin now": ("load <path> now", "path"),
    "open ~/.cache/x": ("open <path>", "path"),
    "read \\\\filer\\share\\x.bin": ("read <path>", "path"),
    "f<(lambda at /src/x.cu:12:3)>(int)": ("f<(lambda at <path>:12:3)>(int)", "path"),
    "get https://acme.example/a?key=1 twice": ("get <url> twice", "url"),
    "by bob@acme.com": ("by <email>", "email"),
    "to 10.1.2.3:8000": ("to <ip>", "ip"),
    "to fe80::1ff:fe23:4567:890a": ("to <ip>", "ip"),
    "card aa:bb:cc:dd:ee:ff": ("card <ip>", "ip"),
    "on node-7.acme.internal": ("on <host>", "host"),
    "on ip-10-1-2-3": ("on <host>", "host"),
    "rank 0 at gpu-box": ("rank 0 at <host>", "host"),
    "alice's run": ("<user>'s run", "user"),
    "login hf_abcdefghijklmnop": ("login <secret>", "secret"),
    "--api-key hunter2": ("--<secret>", "secret"),
    "password: correcthorse": ("<secret>", "secret"),
    "Authorization: Bearer abcdef123456": ("Authorization: Bearer <secret>", "secret"),
    "<built-in method get of dict object at 0x7fe02cbe57c0>": (
        "<built-in method get of dict object at <address>>",
        "address",
    ),
}


@pytest.mark.parametrize("text", GONE)
def test_private_parts_go_and_are_counted(text: str) -> None:
    redactor = Redactor(hosts=["gpu-box"], users=["alice"])
    expected, kind = GONE[text]
    assert redactor.text(text) == expected
    assert {k: n for k, n in redactor.counts.items() if n} == {kind: 1}


STAYS = (
    "vllm/v1/worker/gpu_model_runner.py(99): execute_model",
    "<frozen importlib._bootstrap>(1176): _find_and_load",
    "nn.Module: Linear_0",
    "execute_context_1(sq8sk8sqsq64sqsk64)_generation_0(sq0sk0sqsq0sqsk0)",
    "step[DECODE bs=16 toks=16]",
    "num_tokens=128",
    "token: 5",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "Memcpy HtoD (Pageable -> Device)",
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x96x64",
    "threading.local",
    "1.2.3",
    "12:34:56",
)


@pytest.mark.parametrize("text", STAYS)
def test_names_of_code_stay(text: str) -> None:
    assert Redactor(hosts=["gpu-box"], users=["alice"]).text(text) == text


def test_arguments_are_looked_at_one_by_one() -> None:
    redactor = Redactor()
    key = "ab12CD34ab12CD34ab12CD34ab12CD34"
    assert redactor.json('["","\\/data\\/x","5","[1, 2]"]') == '["","<path>","5","[1, 2]"]'
    assert redactor.json(f'["a/b",["{key}"],true]') == '["<path>",["<secret>"],true]'
    assert redactor.json('["False",""]') == '["False",""]'
    assert redactor.json('["/data/x') == '["<path>'


def test_a_text_counts_once_in_however_many_tables() -> None:
    redactor = Redactor()
    table = pl.DataFrame({"name": ["/a/b", "/a/b", None], "n": [1, 2, 3]})
    for _ in range(2):
        assert redactor.table(table)["name"].to_list() == ["<path>", "<path>", None]
    assert redactor.counts["path"] == 1


def test_a_profile_gives_its_hosts_and_users_away() -> None:
    made = profile(
        event("python", "/home/alice/x.py(1): f", 0, 5),
        event("annotation", "alice on gpu-box and c0ffee", 0, 5),
        host="gpu-box.acme.example",
        about={"system.uname.node": "c0ffee"},
    )
    assert redactor_for(made).text("alice on gpu-box and c0ffee") == "<user> on <host> and <host>"


def test_the_host_in_a_file_name_is_known() -> None:
    made = profile(event("kernel", "k", 0, 5))
    object.__setattr__(made, "path", "gpu-box_42.1700000000000.pt.trace.json.gz")
    assert redactor_for(made).text("at gpu-box") == "at <host>"


def test_home_folders_of_everybody_name_nobody() -> None:
    made = profile(event("python", "/home/vllm/x.py(1): f", 0, 5))
    assert redactor_for(made).text("vllm::moe") == "vllm::moe"


def test_redact_covers_metadata_tables_and_warnings() -> None:
    made = profile(
        event("cpu_op", "aten::load", 0, 5, concrete_inputs='["/data/x"]'),
        event("kernel", "k", 0, 5),
        host="gpu-box",
        about={"cmd": "x", "n": 1},
        versions={"cuda_version": "12"},
        rank=3,
    )
    object.__setattr__(made, "warnings", (ProfileWarning("odd", "see /data/x"),))
    result, redactor = redact(made)
    assert result.path == "redacted.kineto"
    assert (result.metadata.host, result.metadata.about) == (None, {})
    assert (result.metadata.versions, result.metadata.rank) == ({"cuda_version": "12"}, 3)
    assert result.events["concrete_inputs"].to_list() == ['["<path>"]', None]
    assert result.events.drop("concrete_inputs").equals(made.events.drop("concrete_inputs"))
    assert result.warnings == (ProfileWarning("odd", "see <path>"),)
    assert redactor.counts["fact"] == 3


def test_every_kind_is_described() -> None:
    assert list(Redactor().counts) == list(KINDS)


@pytest.mark.parametrize("piece", ["a-", "a.", "1.", "(1", "/ ", "eyJa-", "a@", "password ", "0x"])
def test_hostile_texts_take_no_time(piece: str) -> None:
    begin = time.process_time()
    Redactor().text(piece * 20_000)
    assert time.process_time() - begin < 20
