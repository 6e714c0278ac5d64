"""Copies of the bundled recordings, to keep and to open with other tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from solscope.demo import DEMOS, FOLDER
from solscope.demo.examples import EXAMPLES, on_files
from solscope.errors import UsageError
from solscope.files import new_folder

README = "README.md"


class Copied(msgspec.Struct, frozen=True):
    """What was written."""

    folder: str
    files: list[str]
    """Relative to the folder."""
    bytes: int


def copy_demos(target: Path, *, force: bool = False) -> Copied:
    """Write all demos and a README with commands to a new folder; all of it appears at once."""
    empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not (empty or _is_ours(target)):
        raise UsageError(f"{target} exists and is not a copy of the demos; choose another folder")
    if target.exists() and not (empty or force):
        raise UsageError(f"{target} exists; use --force to replace it")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    with new_folder(target) as work:
        work.mkdir()
        for demo in DEMOS.values():
            for file in demo.files:
                copy = work / file.relative_to(FOLDER)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
        (work / README).write_text(readme(), encoding="utf-8")
        files = sorted(path for path in work.rglob("*") if path.is_file())
        names = [path.relative_to(work).as_posix() for path in files]
        size = sum(path.stat().st_size for path in files)
    return Copied(str(target), names, size)


def _is_ours(folder: Path) -> bool:
    file = folder / README
    return file.is_file() and file.read_text("utf-8", errors="replace").startswith(_TITLE)


_TITLE = "# Recordings to try solscope with\n"


def readme() -> str:
    """What the files are, and what to try with them."""
    rows = "".join(f"| `{demo.file}` | {demo.about} |\n" for demo in DEMOS.values())
    tries = "".join(
        f"\n## {example.question}\n\n```sh\n"
        + "".join(f"{on_files(line)}\n" for line in example.lines)
        + "```\n"
        + ("\nExit code 1 is the answer: it got slower.\n" if example.exit_code == 1 else "")
        + (
            f"\nNeeds `pip install 'solscope[{example.extra}]'`.\n"
            if example.extra is not None
            else ""
        )
        for example in EXAMPLES
    )
    return (
        f"{_TITLE}\nReal recordings, cut to a few steps. Run the commands in this folder.\n\n"
        f"| file | what it is |\n|---|---|\n{rows}{tries}"
    )
