"""The HTML report as a file: what it holds, and what it cannot do."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import solscope
from solscope import attribute
from solscope.cli import run
from solscope.pages.comparison import comparison_page
from solscope.pages.profile import profile_page
from solscope.report import html as report_html
from solscope.report.html import asset, render_html, script_data
from tests.making import attributed, event

MOST_BYTES = 250_000
"""Of a report, but for its data: script, style and frame."""
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\u2028&amp;"


def data_of(document: str) -> dict[str, Any]:
    found = re.search(r'id="solscope-data">(.*?)</script>', document, re.DOTALL)
    assert found
    result = json.loads(found[1])
    assert isinstance(result, dict)
    return result


def test_a_report_carries_its_data() -> None:
    page = profile_page(attribute(solscope.open("demo:vllm-b200")))
    data = data_of(render_html([page], "demo"))
    (written,) = data["pages"]
    assert written["kind"] == "profile"
    assert written["summary"]["kernels"] == 768
    assert len(written["kernels"]["kernels"]) == len(page.kernels.kernels)


def test_only_the_built_script_may_run() -> None:
    document = render_html([], "nothing")
    digest = base64.b64encode(hashlib.sha256(asset("app.js").encode()).digest()).decode()
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="(.*?)"', document)[0])
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    scripts = re.findall(r"<script\b([^>]*)>", document.replace(asset("app.js"), ""))
    assert scripts == [' type="application/json" id="solscope-data"', ""]


@pytest.mark.parametrize("name", ["app.js", "app.css"])
def test_assets_load_nothing_and_close_nothing(name: str) -> None:
    text = asset(name)
    assert "</script" not in text.lower()
    assert "</style" not in text.lower()
    assert not re.search(r"""@import|url\(\s*['"]?https?:|importScripts""", text)


def test_a_report_without_data_is_small() -> None:
    assert len(render_html([], "nothing").encode()) <= MOST_BYTES


def test_names_of_a_profile_stay_text() -> None:
    made = attributed(event("kernel", HOSTILE, 0, 10), event("kernel", "b", 20, 10))
    document = render_html([profile_page(made)], HOSTILE)
    assert "<img" not in document
    assert document.count("<script") == 2
    names = [row["name"] for row in data_of(document)["pages"][0]["kernels"]["kernels"]]
    assert HOSTILE in names


def test_script_data_is_the_same_json() -> None:
    value = {"a": HOSTILE}
    written = script_data(json.dumps(value, ensure_ascii=False).encode())
    assert json.loads(written) == value
    assert not set("<>&\u2028") & set(written)


def test_two_profiles_make_a_comparison_and_a_page_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "two.html"
    files = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]
    assert run(["report", *files, "-o", str(target), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pages"] == 3
    assert said["bytes"] == target.stat().st_size < 3_000_000
    kinds = [page["kind"] for page in data_of(target.read_text())["pages"]]
    assert kinds == ["comparison", "profile", "profile"]


def test_a_comparison_without_layers_says_why() -> None:
    first = attributed(event("kernel", "a", 0, 10))
    second = attributed(event("kernel", "a", 0, 20))
    page = comparison_page([first, second], ["first", "second"])
    assert page.layers is None
    assert page.no_layers


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")
    assert run(["report", "demo:vllm-b200", "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert run(["report", "demo:vllm-b200", "-o", str(target), "--force"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_benchmark_results_make_a_page(tmp_path: Path) -> None:
    target = tmp_path / "bench.html"
    assert run(["report", "tests/data/bench_results.jsonl", "-o", str(target)]) == 0
    (page,) = data_of(target.read_text())["pages"]
    assert page["kind"] == "bench"
    assert {entry["solution"] for entry in page["leaderboard"]["entries"]} == {
        "fla",
        "torch-compile",
        "torch-eager",
    }
    assert len(page["shapes"]) == 16
    assert page["production_s"]["unified_attention"] == pytest.approx(0.074, abs=0.001)


def test_a_run_that_is_told_as_something_else_than_text_is_left_out(tmp_path: Path) -> None:
    lines = Path("tests/data/bench_results.jsonl").read_text().splitlines()
    odd = {"time": 5, "command": ["solscope", {"bench": 1}], "versions": "x"}
    source, target = tmp_path / "odd.jsonl", tmp_path / "bench.html"
    source.write_text("".join(json.dumps(json.loads(one) | {"run": odd}) + "\n" for one in lines))
    assert run(["report", str(source), "-o", str(target)]) == 0
    (page,) = data_of(target.read_text())["pages"]
    assert page["machine"] == {"time": None, "command": None, "versions": None}
    assert page["runs"] == 1


def test_profiles_and_results_do_not_mix(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "demo:vllm-b200", "tests/data/bench_results.jsonl"]) == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_folder_is_no_place_to_write_to(
    tmp_path: Path, force: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "demo:vllm-b200", "-o", str(tmp_path), *force]) == 2
    assert "is a folder; give a file name" in capsys.readouterr().err


def test_a_profile_is_not_diagnosed_against_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = ["demo:vllm-b200", "demo:vllm-b200"]
    assert run(["report", "--diagnose", *same, "-o", str(tmp_path / "r.html")]) == 2
    assert "takes two different profiles, or one alone" in capsys.readouterr().err


def test_one_profile_is_diagnosed_on_its_own(tmp_path: Path) -> None:
    assert run(["report", "--diagnose", "demo:vllm-b200", "-o", str(tmp_path / "r.html")]) == 0
    kinds = [page["kind"] for page in data_of((tmp_path / "r.html").read_text())["pages"]]
    assert kinds == ["single", "profile"]


def test_the_policy_is_of_the_script_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where size and date stay as they were, as in images that are built reproducibly."""
    assets = tmp_path / "assets"
    shutil.copytree(report_html.ASSETS, assets, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(report_html, "ASSETS", assets)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for script in ("first();", "other();"):
        (assets / "app.js").write_text(script)
        os.utime(assets / "app.js", (1, 1))
        asset.cache_clear()
        assert report_html.digest(script) in render_html([], "a report")
    asset.cache_clear()
