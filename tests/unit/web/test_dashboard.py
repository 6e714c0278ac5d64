"""The dashboard's server: what it answers, and whom."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.errors import UsageError
from solscope.report.html import digest
from solscope.web.api import ENDPOINTS
from solscope.web.app import Uploads, create_app
from solscope.web.library import Library
from solscope.web.serve import is_loopback, listen
from tests.sampling import some

DEMOS = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(DEMOS)


@pytest.fixture(scope="module")
def client(library: Library) -> TestClient:
    return TestClient(create_app(library), base_url="http://localhost:8765")


def ids(client: TestClient) -> list[str]:
    return [entry["id"] for entry in client.get("/api/overview").json()["profiles"]]


def test_profiles_are_listed_and_shown(client: TestClient) -> None:
    first, second = ids(client)
    page = client.get(f"/api/profile/{first}").json()
    assert page["kind"] == "profile"
    assert page["summary"]["kernels"] == 768
    both = client.get("/api/compare", params={"a": first, "b": second}).json()
    assert both["kind"] == "comparison"
    assert [side["steps"] for side in both["comparison"]["profiles"]] == [1, 1]


def test_files_of_the_server_are_no_hardware(client: TestClient) -> None:
    first, _ = ids(client)
    answer = client.get(f"/api/profile/{first}?hardware=src/solscope/hardware/data/H200.toml")
    assert answer.status_code == 422
    assert "by name" in answer.json()["error"]


def test_what_is_unforeseen_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(DEMOS)
    monkeypatch.setattr(library, "look_again", lambda: 1 / 0)
    client = TestClient(create_app(library), base_url="http://localhost")
    answer = client.get("/api/overview")
    assert answer.status_code == 500
    assert "terminal" in answer.json()["error"]


def test_a_new_file_in_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"traceEvents": []}')
    client = TestClient(create_app(Library([str(tmp_path)])), base_url="http://localhost")
    assert len(ids(client)) == 1
    (tmp_path / "b.json").write_text('{"traceEvents": []}')
    assert len(ids(client)) == 2
    for path in tmp_path.iterdir():
        path.unlink()
    assert len(ids(client)) == 2


def test_a_new_file_is_found_wherever_a_source_looks(tmp_path: Path) -> None:
    sources = [tmp_path / "folder", tmp_path / "*.json"]
    files = [tmp_path / "folder" / "rank0" / "a.json", tmp_path / "b.json"]
    files[0].parent.mkdir(parents=True)
    for file in files:
        file.write_text('{"traceEvents": []}')
    library = Library(list(map(str, sources)))
    for file in files:
        shutil.copy(file, file.with_name(f"new_{file.name}"))
    library.look_again()
    assert sorted(one.label for one in library.entries) == ["a", "b", "new_a", "new_b"]


def test_bounds_follow_the_chosen_hardware(client: TestClient) -> None:
    first, _ = ids(client)
    named = [
        client.get(f"/api/profile/{first}", params={"hardware": name}).json()["roofs"]["name"]
        for name in ("H200", "b200")
    ]
    assert named == ["H200", "B200"]


def test_the_suite_has_the_published_numbers(client: TestClient) -> None:
    suite = client.get("/api/suite").json()
    assert suite["hardware"] == ["H20", "XPU-A"]
    top = suite["operators"][0]
    assert (top["operator"], round(top["importance_pct"], 1)) == ("unified_attention", 39.5)
    shapes = client.get("/api/suite/unified_attention").json()["shapes"]
    assert len(shapes) == 25
    assert shapes[0]["s_pct"] == 7.3


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/profile/nothing", 404),
        ("/api/compare?a=x", 422),
        ("/api/suite/nothing", 422),
        ("/api/suite?hardware=nothing", 422),
        ("/api/suite?hardware=/etc/mine.toml", 422),
        ("/api/suite?hardware=src/solscope/hardware/H200.toml", 422),
        ("/api/suite/rms_norm?hardware=/etc/x.toml", 422),
        ("/api/what", 404),
    ],
)
def test_a_question_without_an_answer_says_why(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_no_question_reads_a_hardware_file(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("secret", encoding="utf-8")
    first = client.get("/api/overview").json()["profiles"][0]["id"]
    asked = {"hardware": str(tmp_path / "mine.toml")}
    for path in (f"/api/profile/{first}", "/api/suite"):
        answer = client.get(path, params=asked)
        assert (answer.status_code, "by name" in answer.json()["error"]) == (422, True)


def test_every_endpoint_is_described(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    assert set(document["paths"]) == {*(one.path for one in ENDPOINTS), "/api/model"}
    names = set(document["components"]["schemas"])
    assert {"ProfilePage", "ComparisonPage", "Overview", "Error"} <= names
    for found in references(document):
        assert found.removeprefix("#/components/schemas/") in names
    asked = document["paths"]["/api/bench/compare"]["get"]["parameters"]
    needed = {one["name"]: one["required"] for one in asked}
    assert needed == {"a": True, "b": True, "device": False, "suite": False}


def test_uploads_are_described_where_they_are_taken(taking: TestClient) -> None:
    described = taking.get("/api/openapi.json").json()["paths"]["/api/upload"]["post"]
    assert [one["name"] for one in described["parameters"]] == ["name", "store", "X-Solscope"]
    schema = described["responses"]["201"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/Uploaded"}


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for below in value.values() for ref in references(below)]
    return [ref for below in value for ref in references(below)] if isinstance(value, list) else []


def test_every_address_is_a_page_with_a_strict_policy(client: TestClient) -> None:
    for path in ("/", "/suite/rms_norm", "/compare?a=1&b=2"):
        answer = client.get(path)
        assert answer.status_code == 200
        (script,) = re.findall(r'<script type="module">(.*?)</script>', answer.text, re.DOTALL)
        policy = answer.headers["content-security-policy"]
        assert f"script-src '{digest(script)}';" in policy
        assert "unsafe-eval" not in policy
    assert client.get("/assets/app.js").headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "[::2]", "127.0.0.1x", ""]
)
def test_foreign_hosts_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/overview", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8765", "LOCALHOST:1"])
def test_our_own_hosts_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/overview", headers={"host": host}).status_code == 200


def test_changes_need_our_header_and_origin(client: TestClient) -> None:
    assert client.post("/api/overview").status_code == 403
    foreign = {"x-solscope": "1", "origin": "http://evil.example"}
    assert client.post("/api/overview", headers=foreign).status_code == 403
    own = {"x-solscope": "1", "origin": "http://localhost:8765"}
    assert client.post("/api/overview", headers=own).status_code == 405


def test_a_token_opens_the_door_once(library: Library) -> None:
    app = create_app(library, token="s3cret")
    client = TestClient(app, base_url="http://box.example:80", follow_redirects=False)
    assert client.get("/").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    opened = client.get("/?token=s3cret")
    assert opened.status_code == 303
    assert "s3cret" not in opened.headers["location"]
    assert client.get("/api/overview").status_code == 200
    elsewhere = client.get("http://box.example//evil.example/?token=s3cret")
    assert elsewhere.headers["location"] == "/evil.example/"
    client.cookies.clear()
    assert client.get("/api/overview").status_code == 401
    bearer = {"authorization": "Bearer s3cret"}
    assert client.get("/api/overview", headers=bearer).status_code == 200


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    kernel = '{"ph": "X", "cat": "kernel", "name": "%s", "ts": 1, "dur": 2, "args": {"device": 0}}'
    line = f'{{"traceEvents": [{kernel}]}}'
    target.write_text(line % "first_kernel")
    library = Library([str(target)])
    client = TestClient(create_app(library), base_url="http://localhost")
    (name,) = ids(client)
    shown = client.get(f"/api/profile/{name}").json()["kernels"]["kernels"][0]["name"]
    assert shown == "first_kernel"
    target.write_text(line % "the_second_kernel")
    shown = client.get(f"/api/profile/{name}").json()["kernels"]["kernels"][0]["name"]
    assert shown == "the_second_kernel"


def test_a_broken_profile_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('{"traceEvents": []}')
    library = Library([str(tmp_path / "good.json")])
    (tmp_path / "good.json").write_text("no json")
    client = TestClient(create_app(library), base_url="http://localhost")
    answer = client.get(f"/api/profile/{library.entries[0].id}")
    assert answer.status_code == 422
    assert "good.json" in answer.json()["error"]


@pytest.fixture
def taking(tmp_path: Path) -> TestClient:
    library = Library(DEMOS)
    app = create_app(library, uploads=Uploads(tmp_path, 1000))
    return TestClient(app, base_url="http://localhost", headers={"x-solscope": "1"})


def test_an_upload_is_shown_at_once(taking: TestClient, tmp_path: Path) -> None:
    answer = taking.post("/api/upload?name=../../run%201.json", content=b'{"traceEvents": []}')
    assert answer.status_code == 201
    assert (tmp_path / "run_1.json").exists()
    assert answer.json()["id"] in ids(taking)
    again = taking.post("/api/upload?name=run_1.json", content=b'{"traceEvents": []}')
    assert again.status_code == 422


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("a.json", b"x" * 1001, 413),
        ("a.json", b"not a profile", 422),
        ("a.json", b"", 422),
        ("..", b'{"traceEvents": []}', 422),
        ("", b'{"traceEvents": []}', 422),
    ],
    ids=["large", "foreign", "empty", "dots", "nameless"],
)
def test_nothing_stays_of_a_bad_upload(
    taking: TestClient, tmp_path: Path, name: str, content: bytes, status: int
) -> None:
    answer = taking.post("/api/upload", params={"name": name}, content=content)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pack", some(["gzip", "zstd", "zip"], 3))
def test_nothing_stays_of_a_compression_bomb(tmp_path: Path, pack: str) -> None:
    head = b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1},'
    app = create_app(Library(DEMOS), uploads=Uploads(tmp_path, 10_000_000))
    client = TestClient(app, base_url="http://localhost", headers={"x-solscope": "1"})
    answer = client.post("/api/upload?name=bomb.json", content=packed(pack, head, 200 << 20))
    assert answer.status_code == (422 if pack == "zip" else 413)
    error = answer.json()["error"]
    assert error.startswith("bomb.json: ")
    assert str(tmp_path) not in error
    assert "\n" not in error
    assert list(tmp_path.iterdir()) == []


def packed(pack: str, head: bytes, blanks: int) -> bytes:
    """Text that ends in so many blanks, in few bytes."""
    pieces = [head, *[b" " * (1 << 20)] * (blanks >> 20)]
    if pack == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("trace.json", b"".join(pieces))
        return file.getvalue()
    if pack == "gzip":
        packer: Any = zlib.compressobj(1, zlib.DEFLATED, 31)
    else:
        packer = pytest.importorskip("zstandard").ZstdCompressor().compressobj()
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def test_uploads_need_to_be_allowed(client: TestClient) -> None:
    answer = client.post("/api/upload?name=a.json", headers={"x-solscope": "1"})
    assert answer.status_code == 405


def test_a_store_is_shown(tmp_path: Path) -> None:
    store = create_corpus(tmp_path / "store")
    store.append([extract("tests/data/kineto_b200.json.gz")])
    library = Library([str(tmp_path / "store")])
    client = TestClient(create_app(library), base_url="http://localhost")
    page = client.get("/api/corpus").json()
    assert (page["in_all"], page["start"], len(page["profiles"])) == (1, 0, 1)
    after = client.get("/api/corpus?start=1&most=5").json()
    assert (after["in_all"], after["start"], after["profiles"]) == (1, 1, [])
    assert client.get("/api/corpus?start=x").status_code == 422
    assert client.get("/api/corpus?sort=nothing").status_code == 422
    assert page["series"] == [{"model": None, "gpu": "B200", "profiles": 1}]
    missed = client.get("/api/corpus?find=nothing").json()
    assert (missed["in_all"], missed["found"], missed["profiles"]) == (1, 0, [])
    assert missed["series"] == page["series"]
    assert page["status"]["profiles"] == 1
    assert page["facts"]["gpu"] == ["B200"]
    rows = client.get("/api/corpus/importance", params={"by": "category"}).json()["rows"]
    assert sum(row["importance_pct"] for row in rows) == pytest.approx(100)
    assert client.get("/api/corpus/importance?by=nothing").status_code == 422
    assert client.get("/api/corpus/shapes/dense_gemm").json()["operators"][0]["shapes"]
    assert client.get("/api/corpus?gpu=nothing").json()["profiles"] == []


def test_benchmark_results_are_shown() -> None:
    library = Library(["tests/data/bench_results.jsonl", *DEMOS])
    client = TestClient(create_app(library), base_url="http://localhost")
    overview = client.get("/api/overview").json()
    assert overview["solutions"] == ["fla", "torch-compile", "torch-eager"]
    assert len(overview["profiles"]) == 2
    page = client.get("/api/bench").json()
    assert page["leaderboard"]["device"] == "NVIDIA H200"
    found = client.get("/api/bench/compare?a=torch-eager&b=fla").json()
    assert found["verdict"] in ("faster", "slower", "cannot tell")
    assert client.get("/api/bench/compare?a=torch-eager").status_code == 422
    assert client.get("/api/bench/compare?a=torch-eager&b=nothing").status_code == 422


def test_without_a_store_the_questions_about_it_say_so(client: TestClient) -> None:
    assert "no profile store" in client.get("/api/corpus").json()["error"]


def test_listening_says_what_is_wrong() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="--port 0"):
            listen("127.0.0.1", port)
    with pytest.raises(UsageError, match="cannot listen"):
        listen("no such host", 0)
    assert is_loopback("127.0.0.2")
    assert not is_loopback("0.0.0.0")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    create_corpus(tmp_path / "store").append([extract("tests/data/kineto_b200.json.gz")])
    return tmp_path / "store"


def test_a_long_table_comes_in_parts(store: Path) -> None:
    client = TestClient(create_app(Library([str(store)])), base_url="http://localhost")
    ask = "/api/corpus/importance?by=kernel"
    whole = client.get(ask).json()
    assert whole["in_all"] == whole["found"] == len(whole["rows"]) > 10
    first = client.get(f"{ask}&most=3").json()
    assert first["rows"] == whole["rows"][:3]
    assert first["in_all"] == whole["in_all"]
    second = client.get(f"{ask}&start=3&most=4").json()
    assert (second["start"], second["rows"]) == (3, whole["rows"][3:7])
    assert client.get(f"{ask}&start={whole['in_all']}").json()["rows"] == []
    assert client.get(f"{ask}&most=10001").status_code == 422
    assert first["shown_pct"] == pytest.approx(
        sum(row["importance_pct"] for row in whole["rows"][:3])
    )
    found = client.get(f"{ask}&find=REDUCE+all").json()
    assert 0 < found["found"] == len(found["rows"]) < found["in_all"]
    assert all("reduce" in row["key"].lower() for row in found["rows"])
    for wrong in ("0", "-1", "x", "²", "9" * 20):
        assert client.get(ask, params={"by": "kernel", "most": wrong}).status_code == 422


def test_a_store_that_grows_is_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solscope.web.store_view.RECHECK_AFTER_S", 0.0)
    client = TestClient(create_app(Library([str(store)])), base_url="http://localhost")
    assert client.get("/api/overview").json()["corpus"]["profiles"] == 1
    before = client.get("/api/corpus/importance").json()
    create_corpus(store).append([extract("tests/data/rocprofv3.json.gz")])
    assert client.get("/api/overview").json()["corpus"]["profiles"] == 2
    assert client.get("/api/corpus").json()["status"]["profiles"] == 2
    after = client.get("/api/corpus/importance").json()
    assert (before["profiles"], after["profiles"]) == (1, 2)


def test_an_upload_goes_into_the_store_when_asked(store: Path, tmp_path: Path) -> None:
    library = Library([str(store)])
    app = create_app(library, uploads=Uploads(tmp_path, 10_000_000))
    client = TestClient(app, base_url="http://localhost", headers={"x-solscope": "1"})
    content = Path("tests/data/rocprofv3.json.gz").read_bytes()
    assert client.post("/api/upload?name=a.json.gz", content=content).json()["stored"] is False
    assert library.store.status().profiles == 1
    answer = client.post("/api/upload?name=b.json.gz&store=1", content=content)
    assert answer.json()["stored"] is True
    assert client.get("/api/overview").json()["corpus"]["profiles"] == 2
    again = client.post("/api/upload?name=c.json.gz&store=1", content=content)
    assert again.json()["stored"] is False


def test_the_suite_has_our_results_beside_it() -> None:
    library = Library(["tests/data/bench_results.jsonl"])
    client = TestClient(create_app(library), base_url="http://localhost")
    (measured,) = client.get("/api/suite").json()["measured"]
    assert (measured["device"], measured["hardware"]) == ("NVIDIA H200", "H200")
    assert measured["operators"]["rms_norm"]["shapes_passed"] == 2
    (shapes,) = client.get("/api/suite/rms_norm").json()["measured"]
    assert {one["solution"] for one in shapes["shapes"].values()} == {"fla"}


def test_the_time_line_is_asked_for_by_range(client: TestClient) -> None:
    first, _ = ids(client)
    where = f"/api/profile/{first}"
    whole = client.get(f"{where}/timeline").json()
    kinds = {lane["kind"] for lane in whole["lanes"]}
    assert kinds >= {"step", "layer", "idle", "gpu", "call", "stack"}
    span = whole["span_ns"]
    part = client.get(f"{where}/events", params={"from": 0, "to": span // 10, "level": 1}).json()
    all_rows = sum(one["rows"] for one in whole["block"]["parts"])
    assert 0 < sum(one["rows"] for one in part["parts"]) < all_rows
    sums = client.get(f"{where}/range", params={"from": 0, "to": span}).json()
    assert sum(row["calls"] for row in sums["gpu"]) == 929
    label = sums["gpu"][0]["label"]
    found = client.get(f"{where}/next", params={"labels": label, "from": 0}).json()
    assert found["event"]["label"] == label
    none = client.get(f"{where}/next", params={"labels": label, "from": span}).json()
    assert none == {"event": None}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("events?from=0", "missing parameter 'to'"),
        ("events?from=x&to=5", "from: 'x' is not a whole number"),
        ("events?from=0&to=5&level=1.5", "level: '1.5' is not a whole number"),
        ("events?from=9&to=5", "the range ends before it starts: 9 to 5 ns"),
        ("range?from=0&to=9999999999999999999", "to: too many digits"),
        ("next?from=0&labels=1,b", "labels: 'b' is not a whole number"),
    ],
)
def test_a_range_that_is_none_is_refused(client: TestClient, asked: str, why: str) -> None:
    first, _ = ids(client)
    answer = client.get(f"/api/profile/{first}/{asked}")
    assert (answer.status_code, answer.json()["error"]) == (422, why)


def test_answers_are_compressed_for_those_who_can_read_it(client: TestClient) -> None:
    plain = client.get("/api/suite", headers={"accept-encoding": "identity"})
    packed = client.get("/api/suite", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < len(plain.content) / 3


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/", 200), ("/compare", 200), ("/suite/rms_norm", 200), ("/corpus", 200)),
        *(("/nope", 404), ("/profile/nothing", 404), ("/compare/x", 404), ("/profile", 404)),
    ],
)
def test_an_address_without_a_view_is_not_found(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")


def test_icon_and_description_are_where_browsers_look(client: TestClient) -> None:
    icon = client.get("/favicon.ico")
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")
    assert client.get("/openapi.json").json() == client.get("/api/openapi.json").json()


def test_a_summary_cannot_be_diagnosed() -> None:
    library = Library(["tests/data/nsys_decode_kern_sum.csv", DEMOS[0]])
    client = TestClient(create_app(library), base_url="http://localhost")
    first, second = ids(client)
    answer = client.get("/api/diagnose", params={"a": first, "b": second})
    assert answer.status_code == 422
