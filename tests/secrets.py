"""Private texts of 52 kinds, made up, and the 14 places of a profile in which they are planted.

Each secret is put together at run time, so that no scanner of repositories takes it for a real one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from solscope.events import AGGREGATE_SCHEMA, METRIC_SCHEMA, conform
from solscope.profile import Profile, ProfileWarning
from tests.making import event, profile


class Planted(NamedTuple):
    """A private text as it appears, and the part of it that must not survive."""

    text: str
    private: str
    kind: str


_RANDOM = "wJalrXUtnFEMI7K7MDENGbPxRfiCYEXAMP" + "LEKEYa1"
_HEX = "9f86d081884c7d659a2feaa0c55ad015"
_SIGNED = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA"
_BODY = "MIIEpAIBAAKCAQEAvJ3x" + "Qm9vdHN0cmFwS2V5Zm9yVGVzdHM"


def _secret(text: str, private: str | None = None) -> Planted:
    return Planted(text, private or text, "secret")


PRIVATE: dict[str, Planted] = {
    "aws_access_key": _secret("AKIA" + "IOSFODNN7EXAMPLE"),
    "aws_session_key": _secret("ASIA" + "IOSFODNN7EXAMPLE"),
    "aws_secret_assigned": _secret(f"AWS_SECRET_ACCESS_KEY={_RANDOM[:40]}", _RANDOM[:40]),
    "aws_secret_bare": _secret(_RANDOM[:40]),
    "azure_signature": _secret("sv=2024&sig=" + _SIGNED + "%3D%3D", _SIGNED),
    "azure_account_key": _secret("AccountKey=" + _SIGNED + "==", _SIGNED),
    "basic_authorization": _secret("Authorization: Basic dXNlcjpodW50ZXIyMg==", "dXNlcjpodW50"),
    "bearer": _secret("Authorization: Bearer abcdef123456", "abcdef123456"),
    "database_password": _secret("DB_PASSWORD=hunter2hunter2", "hunter2"),
    "dapi": _secret("dapi" + _HEX),
    "digitalocean": _secret("dop_v1_" + _HEX * 2),
    "docker": _secret("dckr_pat_" + "AbCdEfGhIjKlMnOpQrStUvWx"),
    "github_classic": _secret("ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"),
    "github_fine": _secret("github_pat_" + "11ABCDEFG0abcdefghijkl_mnop"),
    "gitlab": _secret("glpat-" + "AbCdEfGhIjKlMnOp1234"),
    "google_api": _secret("AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
    "google_oauth": _secret("ya29." + "a0AfH6SMBx3Jd9kq2LmN8pQrS"),
    "groq": _secret("gsk_" + "AbCdEfGhIjKlMnOpQrStUvWx12345678"),
    "huggingface": _secret("hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz"),
    "json_password": _secret('{"passwd": "x7"}', '"x7"'),
    "jwt": _secret("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN"),
    "npm": _secret("npm_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"),
    "nvidia": _secret("nvapi-" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"),
    "openai": _secret("sk-" + "proj-AbCdEfGhIjKlMnOpQrStUvWx"),
    "anthropic": _secret("sk-" + "ant-api03-AbCdEfGhIjKlMnOpQrSt"),
    "option_password": _secret("--api-key hunter2", "hunter2"),
    "pem": _secret(f"-----BEGIN EC PRIVATE KEY-----\n{_BODY}\n-----END EC PRIVATE KEY-----", _BODY),
    "private_key_variable": _secret("SIGNING_KEY='" + _HEX + "'", _HEX),
    "pypi": _secret("pypi-" + "AgEIcHlwaS5vcmcCJDAxMjM0NTY3"),
    "sendgrid": _secret("SG." + "ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc"),
    "slack": _secret("xoxb-" + "123456789012-AbCdEfGhIjKl"),
    "ssh_public": _secret("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB" + _RANDOM, "AAAAB3NzaC1yc2E"),
    "stripe": _secret("sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc"),
    "telegram": _secret("110201543:" + "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"),
    "wandb": _secret("WANDB_API_KEY=" + _HEX + "01234567", _HEX),
    "email": Planted("by bob.smith@acme.example", "bob.smith", "email"),
    "url": Planted("https://acme.example/a?key=1", "acme.example", "url"),
    "url_of_a_store": Planted("s3://acme-private/runs/7", "acme-private", "url"),
    "ipv4": Planted("10.1.2.3:8000", "10.1.2.3", "ip"),
    "ipv6": Planted("fe80::1ff:fe23:4567:890a", "fe23:4567", "ip"),
    "mac": Planted("aa:bb:cc:dd:ee:f0", "aa:bb:cc", "ip"),
    "path_home": Planted("/home/carol/run/w.bin", "carol", "path"),
    "path_relative": Planted("../acme-data/prompts/w.jsonl", "acme-data", "path"),
    "path_windows": Planted("C:\\Users\\carol\\w.bin", "carol", "path"),
    "host_internal": Planted("node-7.acme.internal", "acme", "host"),
    "host_public": Planted("gpu-7.acme.ai", "acme", "host"),
    "host_short": Planted("acme-node-17", "acme-node", "host"),
    "host_recorded": Planted("zebra", "zebra", "host"),
    "pod": Planted("acme-llm-7d9f8b6c5d-x2k4q", "acme-llm", "host"),
    "gpu_uuid": Planted("GPU-8f6b1c2e-1a2b-3c4d-5e6f-0123456789ab", "8f6b1c2e", "id"),
    "slurm_job": Planted("SLURM_JOB_ID=4711234", "4711234", "id"),
    "user": Planted("dave", "dave", "user"),
}  # fmt: skip
"""What is planted, by name. `zebra` is the host of the recording, `dave` a home folder in it."""

Place = Callable[[str], Profile]


def _kernel(name: str, **more: Any) -> Profile:
    home = event("cpu_op", "aten::load", 0, 5, concrete_inputs='["/home/dave/x"]')
    return profile(
        home, event("kernel", "k", 0, 5), event("kernel", name, 9, 5, **more), host="zebra"
    )


def _event(kind: str, text: str, **more: Any) -> Profile:
    first = _kernel("k")
    return replace(
        first, events=pl.concat([first.events, profile(event(kind, text, 1, 2, **more)).events])
    )


def _input(value: Any) -> Profile:
    return _event("cpu_op", "aten::x", concrete_inputs=json.dumps(value))


def _metrics(text: str) -> Profile:
    rows = pl.DataFrame([{"t_ns": 1, "metric": text, "device": 0, "value": 1.0}])
    return replace(_kernel("k"), metrics=conform(rows, METRIC_SCHEMA))


def _aggregates(text: str) -> Profile:
    rows = pl.DataFrame([{"name": text, "kind": "kernel", "total_ns": 1, "calls": 1}])
    return replace(_kernel("k"), aggregates=conform(rows, AGGREGATE_SCHEMA))


def _warning(text: str) -> Profile:
    return replace(_kernel("k"), warnings=(ProfileWarning("odd", f"while reading {text}, a gap"),))


PLACES: dict[str, Place] = {
    "kernel": _kernel,
    "kernel_template": lambda text: _kernel(f"void gemm<{text}>(int)"),
    "annotation": lambda text: _event("annotation", text),
    "annotation_sentence": lambda text: _event("annotation", f"load model from {text} now"),
    "operator": lambda text: _event("cpu_op", f"my::op {text}"),
    "python_function": lambda text: _event("python", f"vllm/worker.py(12): load {text}"),
    "input_whole": lambda text: _input([text, 5]),
    "input_sentence": lambda text: _input([f"see {text} there"]),
    "input_nested": lambda text: _input([{"a": [{"b": text}]}]),
    "input_key": lambda text: _input([{text: 1}]),
    "process_group": lambda text: _event("cpu_op", "x", process_group=text),
    "metric": _metrics,
    "aggregate": _aggregates,
    "warning": _warning,
}  # fmt: skip
"""A profile with the text in one place."""


def texts(result: Profile) -> str:
    """Everything that a redacted profile says."""
    tables = (result.events, result.aggregates, result.metrics)
    written = [table.write_csv() for table in tables if table is not None]
    return "\n".join([*written, repr(result.metadata), repr(result.warnings), result.path])
