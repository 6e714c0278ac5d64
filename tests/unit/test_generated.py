"""Generated files are what `make generated` writes; each test names the file that is not."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
REFRESH = "run `make generated` or `python scripts/generate.py`"
GENERATORS = sorted(path.stem for path in SCRIPTS.glob("generate_*.py"))


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("generate")


def test_one_command_runs_every_generator(generate: ModuleType) -> None:
    assert sorted(generate.GENERATORS) == GENERATORS


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_files_are_current(generate: ModuleType, name: str) -> None:
    stale = generate.stale(import_module(name).files())
    assert [path.relative_to(ROOT).as_posix() for path in stale] == [], REFRESH


def test_a_stale_file_is_named_and_rewritten(
    generate: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    same, changed, gone = (tmp_path / name for name in ("same.md", "docs/changed.md", "gone.md"))
    same.write_text("same")
    gone.write_text("of a form that is gone")

    def files() -> dict[Path, str | None]:
        return {same: "same", changed: "new", gone: None}

    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main([files]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["docs/changed.md", "gone.md"]
    assert all(line.endswith("is out of date: run `make generated`") for line in printed)
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert generate.main([files]) == 0
    assert (changed.read_text(), gone.exists()) == ("new", False)
    assert generate.stale(files()) == []


def test_a_part_of_a_page_is_replaced(generate: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- rows -->\nold\n<!-- end of rows -->\n\nBy hand.\n")
    expected = "# Page\n\n<!-- rows -->\n\nnew\n\n<!-- end of rows -->\n\nBy hand.\n"
    assert generate.replace_part(page, "rows", "new\n") == {page: expected}
    with pytest.raises(SystemExit, match="the marks <!-- lines --> and"):
        generate.replace_part(page, "lines", "new")


@pytest.fixture
def table(generate: ModuleType) -> ModuleType:
    assert generate
    return import_module("generate_command_table")


def test_the_table_has_every_module_and_group_of_commands(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / "commands"
    (commands / "group").mkdir(parents=True)
    for path, name in [
        (commands / "zoom.py", "zoom"),
        (commands / "aim.py", "aim"),
        (commands / "group" / "__init__.py", "group"),
    ]:
        code = f'@click.command("{name}", short_help="Say \\"{name}\\".")\ndef command(): ...\n'
        path.write_text(code)
    (commands / "__init__.py").write_text("")
    monkeypatch.setattr(table, "CLI", tmp_path)
    names: dict[str, dict[str, str]] = {}
    exec(table.files()[table.FILE], names)
    expected = {name: f'Say "{name}".' for name in ("aim", "group", "zoom")}
    assert list(names["COMMANDS"].items()) == list(expected.items())


def test_commands_outside_the_tour_take_their_example_from_the_help(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("show", "zoom", "aim"):
        lines = f"solscope {name} trace.json.gz\n      solscope {name} demo:vllm-b200 --top 3"
        text = f"Examples:\n      {lines if name != 'aim' else 'solscope aim FILE'}\n    "
        code = f'@click.command("{name}", short_help="Do.")\ndef command():\n    """{text}"""\n'
        (commands / f"{name}.py").write_text(code)
    monkeypatch.setattr(table, "CLI", tmp_path)
    names: dict[str, dict[str, tuple[str, str]]] = {}
    exec(table.files()[table.MORE], names)
    assert names["MORE_EXAMPLES"] == {"zoom": ("Do.", "zoom demo:vllm-b200 --top 3")}


def test_a_module_without_a_command_is_named(table: ModuleType, tmp_path: Path) -> None:
    module = tmp_path / "streams.py"
    module.write_text("def command():\n    pass\n")
    with pytest.raises(SystemExit, match=r"streams\.py: no function `command`"):
        table.short_help(module)
