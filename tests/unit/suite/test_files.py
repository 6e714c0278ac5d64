"""Suite files: the two that ship, one of a user, and what is said of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.cli import run
from solscope.errors import DamagedFileError, UnknownFormatError, UsageError
from solscope.operators import operator
from solscope.suite.atrex import load_suite
from solscope.suite.files import SCHEMA, SHIPPED, decode, dump, load, validate
from solscope.suite.scale import scale_down


def small_suite(**changes: Any) -> dict[str, Any]:
    shape = {"id": "a", "axes": {"tokens": 4, "hidden": 256}, "weight": 0.25}
    other = {"id": "b", "axes": {"tokens": 64, "hidden": 256}, "weight": 0.75}
    listed = {"operator": "rms_norm", "dtype": "bf16", "importance": 2.0}
    suite = {"schema": SCHEMA, "name": "mine", "title": "Mine"}
    return {**suite, "operators": [{**listed, "shapes": [shape, other]}], **changes}


def encoded(suite: dict[str, Any]) -> bytes:
    return json.dumps(suite).encode()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_suites_hold_and_come_back(name: str) -> None:
    suite = load(name)
    assert validate(suite) == []
    assert suite.name == name
    assert decode(dump(suite).encode(), name) == suite


def test_weights_of_the_public_suite_are_calls_times_time() -> None:
    listed, raw = load("atrex").operator("fused_add_rms_norm"), load_suite()
    shapes = raw.operator("fused_add_rms_norm").shapes
    counted = [shape for shape in shapes if shape.call_count]
    first, last = counted[0], counted[-1]
    weights = [listed.shape(str(shape.id)).weight for shape in (first, last)]
    times = [(shape.call_count or 0) * shape.prod_us for shape in (first, last)]
    assert weights[0] / weights[1] == pytest.approx(times[0] / times[1])


def test_the_public_suite_is_made_once() -> None:
    assert load() is load("atrex")


def test_shapes_without_calls_are_marked() -> None:
    every = [shape for listed in load("atrex").operators for shape in listed.shapes]
    guessed = [s for s in every if s.provenance["calls_from"] != "traces"]
    assert (len(every), len(guessed)) == (440, 135)


def test_decode_has_what_the_public_suite_lacks() -> None:
    suite = load("decode")
    groups = [s.axes["sequences"] for s in suite.operator("unified_attention").shapes]
    assert any(q == 1 and kv >= 131_072 for group in groups for q, kv, _ in group)
    assert any(1 < q < kv for group in groups for q, kv, _ in group)
    assert any({q == 1 for q, _, _ in group} == {True, False} for group in groups)
    kinds = {s.axes["dtype"] for s in suite.operator("dense_gemm").shapes}
    assert kinds == {"bf16", "fp8"}
    assert min(s.axes["m"] for s in suite.operator("block_scaled_mm").shapes) == 1


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shape_can_be_made_small(name: str) -> None:
    for listed in load(name).operators:
        for shape in listed.shapes:
            small = scale_down(shape.axes)
            assert operator(listed.operator).cost(small).bytes < 50e6
            for many, few in (("q_heads", "kv_heads"), ("v_heads", "q_heads")):
                if many in small and few in small:
                    assert small[many] % small[few] == 0


# --- Of a user


def test_a_file_of_a_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(encoded(small_suite()))
    assert load(path).operator("rms_norm").shape("b").weight == 0.75
    assert run(["suite", "list", "--suite", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["operators"]
    assert rows[0]["importance_norm_pct"] == 100
    assert run(["suite", "shapes", "rms_norm", "--suite", str(path), "--hardware", "H200"]) == 0
    assert "75.0 %" in capsys.readouterr().out
    assert run(["suite", "show", "rms_norm", "--suite", str(path), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in card["inputs"]] == ["x", "weight", "eps"]
    assert run(["suite", "verify", "--suite", str(path)]) == 0
    assert "all hold" in capsys.readouterr().out


def changed(**changes: Any) -> dict[str, Any]:
    """The small suite with its operator changed."""
    suite = small_suite()
    suite["operators"][0].update(changes)
    return suite


SHAPE = {"id": "a", "axes": {"tokens": 4, "hidden": 256}, "weight": 1.0}


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        (changed(operator="rms_nrom"), "did you mean 'rms_norm'"),
        (changed(importance=-1), "importance -1.0 is negative"),
        (changed(shapes=[]), "no shapes"),
        (changed(shapes=[SHAPE, SHAPE]), "shape a is listed twice"),
        (changed(shapes=[{**SHAPE, "weight": 0.5}]), "add up to 0.5, not 1"),
        (changed(shapes=[{**SHAPE, "axes": {"tokens": 4}}]), "axis hidden is missing"),
        (changed(shapes=[{**SHAPE, "axes": {"tokens": "4", "hidden": 2}}]), "make no sense"),
        (changed(shapes=[{**SHAPE, "axes": {"tokens": -4, "hidden": 2}}]), "negative"),
        (changed(shapes=[{"id": "a"}]), "missing required field `axes`"),
        (changed(color="red"), "unknown field `color`"),
        (small_suite(operators=[]), "no operators"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_is_named(suite: dict[str, Any], said: str) -> None:
    with pytest.raises(DamagedFileError) as caught:
        decode(encoded(suite), "f.json")
    assert said in str(caught.value)
    assert str(caught.value).startswith("f.json: ")


def test_other_files_are_not_suites() -> None:
    for content in (b"{", b"[]", b"{}", encoded(small_suite(schema="solscope.suite/9"))):
        with pytest.raises(UnknownFormatError):
            decode(content, "f.json")


def test_no_such_suite() -> None:
    with pytest.raises(UsageError, match="atrex, decode"):
        load("nothing")


# --- Commands


def test_show_says_how_answers_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "show", "moe_topk_gating_softmax"]) == 0
    shown = capsys.readouterr().out
    for part in ("Tie rule", "topk_ids", "operator-specific rules", "gating_output", "10 shapes"):
        assert part in shown
    assert run(["suite", "show", "reshape_and_cache"]) == 0
    assert "key_cache (in place)" in capsys.readouterr().out


def test_the_command_for_more_shapes_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    suite = small_suite()
    (listed,) = suite["operators"]
    axes = listed["shapes"][0]["axes"]
    listed["shapes"] = [{"id": f"s{at}", "axes": axes, "weight": 1 / 16} for at in range(16)]
    path = tmp_path / "my suite.json"
    path.write_bytes(encoded(suite))
    assert run(["suite", "show", "rms_norm", "--suite", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"4 more: solscope suite shapes rms_norm --suite '{path}'" in shown


def test_verify_fails_with_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shape = {"id": "a", "axes": {"elements": 10, "dtype": "fp32"}, "weight": 1.0}
    listed = {"operator": "fill", "dtype": "fp32", "importance": 1.0, "shapes": [shape]}
    path = tmp_path / "cannot.json"
    axes = dict.fromkeys(operator("fill").axes, 8)
    path.write_bytes(
        encoded(small_suite(operators=[{**listed, "shapes": [{**shape, "axes": axes}]}]))
    )
    assert run(["suite", "verify", "--suite", str(path), "--json"]) == 1
    found = msgspec.json.decode(capsys.readouterr().out)["operators"][0]
    assert found["failures"] == ["it has no executable half"]


@pytest.mark.parametrize("suite", SHIPPED)
def test_an_operator_without_shapes_differs_from_one_that_does_not_exist(suite: str) -> None:
    expected = (
        f"suite {suite} has no shapes of softmax; list shapes in a suite file and pass it with "
        "--suite FILE"
    )
    with pytest.raises(UsageError) as caught:
        load(suite).operator("softmax")
    assert str(caught.value) == expected
    with pytest.raises(UsageError, match=rf"no operator 'sotfmax' in suite {suite} \(available: "):
        load(suite).operator("sotfmax")


def test_the_published_tables_say_so_too() -> None:
    with pytest.raises(UsageError, match="suite atrex has no shapes of softmax"):
        load_suite().operator("softmax")
