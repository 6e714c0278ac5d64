"""Copies of the bundled recordings, to keep and to open with other tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from solscope.demo import DEMOS, FOLDER
from solscope.demo.examples import EXAMPLES, on_files
from solscope.errors import UsageError
from solscope.files import new_file, new_folder

README = "README.md"


class Copied(msgspec.Struct, frozen=True):
    """What was written."""

    folder: str
    files: list[str]
    """Relative to the folder."""
    bytes: int


def copy_demos(target: Path, *, force: bool = False) -> Copied:
    """Write all demos and a README with commands to a folder.

    A new folder appears at once. In an earlier copy, only these files are replaced, each at once:
    what the commands of the README wrote there stays.
    """
    empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not (empty or _is_ours(target)):
        raise UsageError(f"{target} exists and is not a copy of the demos; choose another folder")
    if target.exists() and not (empty or force):
        raise UsageError(f"{target} exists; use --force to replace its recordings")
    if target.exists() and not empty:
        return _write(target)
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    with new_folder(target) as work:
        work.mkdir()
        return msgspec.structs.replace(_write(work), folder=str(target))


def _write(folder: Path) -> Copied:
    """Write our files to a folder, each at once; other files stay."""
    names = [README]
    for demo in DEMOS.values():
        for file in demo.files:
            name = file.relative_to(FOLDER)
            names.append(name.as_posix())
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with new_file(folder / name) as work:
                shutil.copyfile(file, work)
    with new_file(folder / README) as work:
        work.write_text(readme(), encoding="utf-8")
    size = sum((folder / name).stat().st_size for name in names)
    return Copied(str(folder), sorted(names), size)


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
