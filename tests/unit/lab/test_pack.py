from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from solscope.cli import app
from solscope.errors import DamagedFileError, InputError, UsageError
from solscope.lab.answers import OURS, Answer
from solscope.lab.pack import pack
from solscope.lab.pairs import read_pairs
from solscope.lab.score import score
from solscope.readers.packed import Observations, load
from tests.json_output import document
from tests.sampling import some

DATA = Path(__file__).parents[2] / "data"
H200 = Path(__file__).parents[4] / "shared/data/h200"
needs_runs = pytest.mark.skipif(not H200.is_dir(), reason="the shared profiles are not here")
TRACE = DATA / "kineto_b200.json.gz"


def line(name: str, **more: object) -> str:
    facts: dict[str, object] = {
        "id": name,
        "half": "tune",
        "fault": name,
        "expected": [name],
        "mode": "eager",
        "strength": 2,
        "normal": "normal",
        "abnormal": name,
    }
    return json.dumps(facts | more) + "\n"


def raw(folder: Path, *lines: str, names: tuple[str, ...] = ()) -> Path:
    """A folder of recordings, each of them the same small trace."""
    folder.mkdir()
    (folder / "pairs.jsonl").write_text("".join(lines))
    for name in names:
        (folder / f"{name}.trace.json.gz").symlink_to(TRACE)
    return folder


def test_a_recording_that_two_pairs_share_is_kept_once(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"), line("disk_io"), names=("normal", "gc", "disk_io"))
    packed = pack([source], tmp_path / "out" / "lab")
    assert (packed.pairs, packed.recordings, packed.left_out) == (2, 3, {})
    files = sorted(p.relative_to(packed.folder).as_posix() for p in Path(packed.folder).rglob("*"))
    assert files == [
        "pairs.jsonl",
        "recordings",
        *(f"recordings/{name}.json.zst" for name in ("disk_io", "gc", "normal")),
    ]
    assert [pair.id for pair in read_pairs(Path(packed.folder))] == ["gc", "disk_io"]
    assert load(Path(packed.folder) / "recordings" / "gc.json.zst").steps
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["lab"]


def test_facts_that_are_not_used_stay_in_the_list(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc", dose=0.25), names=("normal", "gc"))
    packed = pack([source], tmp_path / "lab")
    assert json.loads((Path(packed.folder) / "pairs.jsonl").read_text())["dose"] == 0.25


def test_a_pair_without_its_trace_is_left_out_and_said(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"), line("lost"), names=("normal", "gc"))
    packed = pack([source], tmp_path / "lab")
    assert packed.pairs == 1
    assert "no trace of 'lost'" in packed.left_out["lost"]


def test_recordings_that_are_still_in_parts(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"))
    (source / "part-000.tar").touch()
    with pytest.raises(InputError, match=r"unpack part-000\.tar first"):
        pack([source], tmp_path / "lab")


def test_nothing_to_pack_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"))
    with pytest.raises(InputError, match="no pair can be read"):
        pack([source], tmp_path / "lab")
    assert [p.name for p in tmp_path.iterdir()] == ["raw"]


def test_the_machine_keeps_no_folder_of_its_own(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"), names=("normal", "gc"))
    command = "solscope lab record --out /srv/big disk/../x/lab --half tune"
    (source / "machine.json").write_text(json.dumps({"gpu": "H200", "command": command}))
    pack([source], tmp_path / "lab")
    text = (tmp_path / "lab" / "machine.json").read_text()
    assert "/srv" not in text
    assert json.loads(text)["gpu"] == "H200"


def test_an_existing_folder_is_replaced_only_when_asked(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"), names=("normal", "gc"))
    pack([source], tmp_path / "lab")
    with pytest.raises(UsageError, match="--force"):
        pack([source], tmp_path / "lab")
    assert pack([source], tmp_path / "lab", force=True).pairs == 1
    (tmp_path / "precious").mkdir()
    with pytest.raises(UsageError, match="not be replaced"):
        pack([source], tmp_path / "precious", force=True)


def test_two_sessions_with_recordings_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [raw(tmp_path / name, line("gc"), names=("normal", "gc")) for name in ("a", "b")]
    with pytest.raises(InputError, match="is also in"):
        pack(folders, tmp_path / "lab")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists no pairs"),
        ("{}\n", "line 1"),
        ("nonsense\n", "line 1"),
        (line("gc", normal="../../etc/passwd"), "not a valid recording name"),
    ],
)
def test_a_damaged_list_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DamagedFileError, match=message):
        pack([raw(tmp_path / "raw", text)], tmp_path / "lab")


def test_a_folder_without_a_list_is_no_lab(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no pairs\.jsonl"):
        read_pairs(tmp_path)


def test_a_missing_recording_is_said(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"), names=("normal", "gc"))
    pack([source], tmp_path / "lab")
    (tmp_path / "lab" / "recordings" / "gc.json.zst").unlink()
    with pytest.raises(InputError, match="pack the recordings again"):
        score([tmp_path / "lab"], always_gc)


def always_gc(normal: Observations, abnormal: Observations) -> Answer:
    return Answer(["gc"], alarm=True, verdict="regression")


def test_packed_pairs_can_be_scored(tmp_path: Path) -> None:
    controls = line("again", fault="none", expected=["none"], strength=0)
    source = raw(tmp_path / "raw", line("gc"), controls, names=("normal", "gc", "again"))
    pack([source], tmp_path / "lab")
    result = score([tmp_path / "lab"], always_gc)
    # One and the same trace three times: nothing moved, so that the fault is latent.
    assert [pair.state for pair in result.pairs] == ["latent", "control"]
    (ours,) = [row for row in result.controls if row.ranker == OURS]
    assert (ours.false_alarms.hits, ours.latent_named.hits) == (1, 1)


def test_pack_command(tmp_path: Path) -> None:
    source = raw(tmp_path / "raw", line("gc"), line("lost"), names=("normal", "gc"))
    arguments = ["lab", "pack", str(source), "-o", str(tmp_path / "lab"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert document(done.stdout)["pairs"] == 1
    assert "left out lost" in done.stderr


RUNS = {
    "cpu_contention": "cpu_contention",
    "cpu_throttle": "cpu_slow",
    "gc_pressure": "gc",
    "disk_fsync": "disk_io",
    "normal_again": "none",
}


OFF = {"fault": "graphs_off", "expected": ["graphs_off"], "mode": "graph"}
GRAPHS = line("graphs_off", normal="graph-normal", abnormal="no_graph", **OFF)
OF_GRAPHS = {"graph-normal": "graph/normal", "no_graph": "graph/no_cuda_graph"}


def packed(folder: Path, lines: list[str], recordings: dict[str, str]) -> Path:
    """Recordings of the shared data, by their names in the lines of pairs, packed."""
    source = folder / "raw"
    source.mkdir()
    for name, origin in recordings.items():
        for suffix in ("trace.json.gz", "metrics.csv"):
            (source / f"{name}.{suffix}").symlink_to(H200 / f"{origin}.{suffix}")
    (source / "pairs.jsonl").write_text("".join(lines))
    pack([source], folder / "packed")
    return folder / "packed"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded faults of the shared data, packed."""
    lines = [
        line(name, fault=cause, expected=[cause], normal="eager-normal", abnormal=name)
        for name, cause in RUNS.items()
    ]
    recordings = {name: f"runs/{name}" for name in RUNS} | {"eager-normal": "runs/normal"}
    folder = tmp_path_factory.mktemp("lab")
    return packed(folder, [*lines, GRAPHS], recordings | OF_GRAPHS)


@pytest.fixture(scope="module")
def one_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of them."""
    return packed(tmp_path_factory.mktemp("lab"), [GRAPHS], OF_GRAPHS)


@pytest.mark.long
@needs_runs
def test_real_recordings_become_ten_kilobytes_each(real: Path) -> None:
    sizes = [file.stat().st_size for file in (real / "recordings").iterdir()]
    assert len(sizes) == 8
    assert max(sizes) < 20_000


@pytest.mark.long
@needs_runs
def test_real_faults_are_found_and_the_baselines_miss_most_of_them(real: Path) -> None:
    result = score([real])
    assert {pair.id: pair.state for pair in result.pairs}["normal_again"] == "control"
    (ours,) = [g for g in result.groups if (g.ranker, g.group) == (OURS, "moved")]
    assert (ours.pairs, ours.top1.hits) == (5, 5)
    (controls,) = [c for c in result.controls if c.ranker == OURS]
    assert controls.false_alarms.hits == 0
    assert result.closure_pct is not None
    assert result.closure_pct < 0.1
    others = [g for g in result.groups if g.ranker != OURS and g.group == "moved"]
    assert all(g.top1.hits <= 2 for g in others)


@needs_runs
@pytest.mark.parametrize("form", some([(), ("--all",), ("--json",), ("--markdown",)], 2))
def test_score_command(one_pair: Path, form: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["lab", "score", str(one_pair), *form])
    assert done.exit_code == 0, done.output
    assert "graphs_off" in done.stdout


def test_score_without_results_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["lab", "score"])
    assert isinstance(done.exception, UsageError)
    assert "solscope lab pack" in str(done.exception)
