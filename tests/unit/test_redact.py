"""Redaction: what goes, what stays, and that no table is left out."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solscope.profile import ProfileWarning
from solscope.redact import KINDS, Redactor, module_file, redact, redactor_for
from tests.making import event, profile
from tests.secrets import PLACES, PRIVATE, texts

NAMES = Path(__file__).parents[1] / "data" / "kernel_names.tsv.gz"
AROUND = st.text("abcxyz019 _-.,:;()[]", max_size=8)

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
    "load /data/models/acme 70b/w.bin now": ("load <path1> now", "path"),
    "open ~/.cache/x": ("open <path1>", "path"),
    "read \\\\filer\\share\\x.bin": ("read <path1>", "path"),
    "f<(lambda at /src/x.cu:12:3)>(int)": ("f<(lambda at <path1>:12:3)>(int)", "path"),
    "get https://acme.example/a?key=1 twice": ("get <url1> twice", "url"),
    "by bob@acme.com": ("by <email1>", "email"),
    "to 10.1.2.3:8000": ("to <ip1>", "ip"),
    "to fe80::1ff:fe23:4567:890a": ("to <ip1>", "ip"),
    "card aa:bb:cc:dd:ee:ff": ("card <ip1>", "ip"),
    "on node-7.acme.internal": ("on <host1>", "host"),
    "on ip-10-1-2-3": ("on <host1>", "host"),
    "rank 0 at gpu-box": ("rank 0 at <host1>", "host"),
    "alice's run": ("<user1>'s run", "user"),
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
    "fusedKimiK3MLADecodeQConcatKVCacheKernel",
    "vllm/worker.py(12): f",
    "acme/run.py(1): f",
    "worker-0",
    "gpu-0 rank-1",
    "batch-size-16",
    "next_token: 5",
    "basic blockwise schedule",
    "a/b/c",
    "aten::add.out",
    "1.2.3",
    "12:34:56",
)


@pytest.mark.parametrize("text", STAYS)
def test_names_of_code_stay(text: str) -> None:
    assert Redactor(hosts=["gpu-box"], users=["alice"]).text(text) == text


def test_arguments_are_looked_at_one_by_one() -> None:
    redactor = Redactor()
    key = "ab12CD34ab12CD34ab12CD34ab12CD34"
    assert redactor.json('["","\\/data\\/x","5","[1, 2]"]') == '["","<path1>","5","[1, 2]"]'
    assert redactor.json(f'["a/b",["{key}"],true]') == '["<path2>",["<secret>"],true]'
    assert redactor.json('["False",""]') == '["False",""]'
    assert redactor.json('["/data/x') == '["<path1>'
    assert redactor.json('[{"db_password": "x", "n": 5}]') == '[{"db_password":"<secret>","n":5}]'


@pytest.mark.parametrize(
    "text",
    [
        "PASSWORD=2024-hunter-x",
        "DB_PASSWORD=7!secretWord",
        "api_key='1234-5678-abcd'",
        "--password 9-hunterxx1",
        "PASSWORD=123456789",
    ],
)
def test_secrets_may_begin_with_digits(text: str) -> None:
    assert "<secret>" in Redactor().text(text)
    assert not any(part in Redactor().text(text) for part in ("hunter", "Word", "abcd", "3456"))


def test_counts_of_tokens_are_no_secrets() -> None:
    assert Redactor().text("token=4096, max_tokens: 512") == "token=4096, max_tokens: 512"


def test_users_have_one_token_however_they_are_written() -> None:
    redactor = Redactor(users=["alice"])
    assert redactor.text("alice ALICE") == "<user1> <user1>"


def test_a_text_counts_once_in_however_many_tables() -> None:
    redactor = Redactor()
    table = pl.DataFrame({"name": ["/a/b", "/a/b", None], "n": [1, 2, 3]})
    for _ in range(2):
        assert redactor.table(table)["name"].to_list() == ["<path1>", "<path1>", None]
    assert redactor.counts["path"] == 1


def test_a_profile_gives_its_hosts_and_users_away() -> None:
    made = profile(
        event("python", "/home/alice/x.py(1): f", 0, 5),
        event("annotation", "alice on gpu-box and c0ffee", 0, 5),
        host="gpu-box.acme.example",
        about={"system.uname.node": "c0ffee"},
    )
    assert (
        redactor_for(made).text("alice on gpu-box and c0ffee") == "<user1> on <host1> and <host2>"
    )


def test_the_host_in_a_file_name_is_known() -> None:
    made = profile(event("kernel", "k", 0, 5))
    object.__setattr__(made, "path", "gpu-box_42.1700000000000.pt.trace.json.gz")
    assert redactor_for(made).text("at gpu-box") == "at <host1>"


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
    assert result.events["concrete_inputs"].to_list() == ['["<path1>"]', None]
    assert result.events.drop("concrete_inputs").equals(made.events.drop("concrete_inputs"))
    assert result.warnings == (ProfileWarning("odd", "see <path1>"),)
    assert redactor.counts["fact"] == 3


def test_the_same_name_gives_the_same_token() -> None:
    redactor = Redactor(hosts=["gpu-box.acme.example", "gpu-box"])
    first = redactor.text("from gpu-box.acme.example to 10.0.0.1")
    assert first == "from <host1> to <ip1>"
    assert redactor.text("10.0.0.2 and GPU-BOX and 10.0.0.1") == "<ip2> and <host1> and <ip1>"


def test_numbers_of_tokens_do_not_depend_on_the_order_of_rows() -> None:
    names = [f"/data/{letter}" for letter in "bca"]
    one, other = (Redactor().table(pl.DataFrame({"name": n})) for n in (names, names[::-1]))
    assert one["name"].to_list() == other["name"].to_list()[::-1]


def test_what_was_replaced_is_listed() -> None:
    redactor = Redactor()
    for text in ("see /data/x", "and /data/x", "to 10.0.0.1"):
        redactor.text(text)
    assert [(r.token, r.original, r.texts) for r in redactor.replacements] == [
        ("<path1>", "/data/x", 2),
        ("<ip1>", "10.0.0.1", 1),
    ]


@pytest.mark.parametrize("name", PRIVATE)
def test_nothing_private_survives(name: str) -> None:
    """Every kind in some of the places, and each place with some of the kinds."""
    nothing_survives(name, list(PLACES)[list(PRIVATE).index(name) % 4 :: 4])


@pytest.mark.long
@pytest.mark.parametrize("name", PRIVATE)
def test_nothing_private_survives_anywhere(name: str) -> None:
    nothing_survives(name, list(PLACES))


def nothing_survives(name: str, places: list[str]) -> None:
    planted = PRIVATE[name]
    for place in places:
        result, redactor = redact(PLACES[place](planted.text))
        said = texts(result)
        for form in (planted.private, json.dumps(planted.private)[1:-1]):
            assert form not in said, place
            assert form.replace('"', '""') not in said, place
        assert any(redactor.counts.values()), place


@given(st.sampled_from(sorted(PRIVATE)), st.sampled_from(sorted(PLACES)), AROUND, AROUND)
def test_nothing_private_survives_between_other_words(
    name: str, place: str, before: str, after: str
) -> None:
    planted = PRIVATE[name]
    result, _ = redact(PLACES[place](f"{before} {planted.text} {after}"))
    assert planted.private not in texts(result).replace("\\\\", "\\")


def test_fifty_two_kinds_in_fourteen_places() -> None:
    assert (len(PRIVATE), len(PLACES)) == (52, 14)


def test_real_kernel_names_stay() -> None:
    with gzip.open(NAMES, "rt") as lines:
        names = [line.split("\t")[0] for line in lines]
    redactor = Redactor()
    assert [name for name in names if redactor.text(name) != name] == []
    assert len(names) > 4000


def test_every_kind_is_described() -> None:
    assert list(Redactor().counts) == list(KINDS)


@pytest.mark.parametrize("piece", ["a-", "a.", "1.", "(1", "/ ", "eyJa-", "a@", "password ", "0x"])
def test_hostile_texts_take_no_time(piece: str) -> None:
    begin = time.process_time()
    Redactor().text(piece * 20_000)
    assert time.process_time() - begin < 20
