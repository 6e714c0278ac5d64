"""What a solution is: a Python file, or a folder with one file per operator and `solution.toml`.

A file has `run(**inputs)` and may have `setup(**inputs)`, whose result `run` gets as `plan`.
`OP.cu` in place of `OP.py` is CUDA C++ that exports `run` through torch's extension header; it is
built in the worker. Built-in solutions lie under `solutions/` and are found by name.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import shutil
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from types import ModuleType

import msgspec

from solscope.compiled import parse_toml
from solscope.errors import InputError, UsageError
from solscope.registry import Registry
from solscope.text import encodable

FOLDER = Path(__file__).with_name("solutions")
SOURCES = (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp")
ABOUT = "solution.toml"
NOT_UTF8 = "the name is not valid UTF-8: rename it"
BYTECODE = "__pycache__"
"""An empty file of this name in a staged folder: bytecode, which nobody reads, cannot lie there."""

CUDA_BUILD = '''"""Builds {source} with nvcc, once per content and machine, for `{function}`."""

import fcntl
import os
import shutil
from pathlib import Path

from torch.utils.cpp_extension import CUDA_HOME, load

if CUDA_HOME is None and shutil.which("nvcc") is None:
    raise ImportError("needs nvcc: install the CUDA toolkit and set CUDA_HOME")
folder = Path(os.environ["SOLSCOPE_BUILD_FOLDER"])
folder.mkdir(parents=True, exist_ok=True)
with (folder / "builder").open("w") as builder:
    fcntl.flock(builder, fcntl.LOCK_EX)  # one process at a time, until it ends, however it ends
    (folder / "lock").unlink(missing_ok=True)  # what torch leaves of a build that was killed
    {function} = load(
        name="{name}",
        sources=[str(Path(__file__).with_name("{source}"))],
        extra_cuda_cflags=["-O3"],
        build_directory=str(folder),
    ).{function}
'''


def load_module(path: Path) -> ModuleType:
    """The file of a solution, imported into this process."""
    spec = util.spec_from_file_location(f"solscope_solution_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`solution.toml`."""

    title: str = ""
    author: str = ""
    language: str = "torch"
    """torch, triton, cuda or library."""
    hardware: list[str] = msgspec.field(default_factory=list)
    """GPUs it was written for; empty for any."""
    dependencies: list[str] = msgspec.field(default_factory=list)
    """Packages it imports."""
    url: str = ""
    base: str | None = None
    """Take the files of this built-in solution."""
    compile: bool = False
    """Run through torch.compile."""

    @property
    def compiles(self) -> bool:
        """Whether its first call for a size may take seconds."""
        return self.compile or self.language != "torch"


@dataclass(frozen=True)
class Staged:
    """A copy of the files of a solution for workers, and what it must hold.

    Workers run as this user and can write to it: it is written again before every load.
    """

    path: Path
    """The file to import."""
    digest: str
    files: Mapping[str, bytes] = field(repr=False)

    def write(self) -> None:
        """Write what is not as it must be, and remove what does not belong there."""
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.changed():
            path = folder / name
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if _is_folder(path) else path.unlink()
            if name in self.files:
                path.write_bytes(self.files[name])

    def changed(self) -> list[str]:
        """Names of files that are not as they were written, or that were added."""
        folder = self.path.parent
        there = {path.name for path in folder.iterdir()}
        kept = {name for name in there & self.files.keys() if self._is_kept(folder / name)}
        return sorted((there | self.files.keys()) - kept)

    def _is_kept(self, path: Path) -> bool:
        try:
            is_file = stat.S_ISREG(path.lstat().st_mode)
            return is_file and path.read_bytes() == self.files[path.name]
        except OSError:
            return False


@dataclass(frozen=True)
class Solution:
    """A solution by name, and where its files are."""

    name: str
    place: Path
    """The file, or the folder."""
    about: About

    def file(self, operator: str) -> Path | None:
        """The file for an operator; null when it has none."""
        if self.place.is_file():
            return self.place
        candidates = [self.place / f"{operator}{suffix}" for suffix in (".py", ".cu")]
        return next((path for path in candidates if _is_there(path)), None)

    def operators(self) -> list[str]:
        """Operators that have a file; empty for a single file, which is for whatever is asked."""
        if self.place.is_file():
            return []
        files = [p for p in self.place.iterdir() if p.suffix in (".py", ".cu")]
        return sorted({p.stem for p in files if not p.name.startswith("_")})

    def sources(self, operator: str) -> list[Path]:
        """The files that can decide what runs for an operator: its own, and helpers.

        Python helpers are those that it imports, directly or by another helper, so that a change
        to one leaves the results of operators that do not use it valid. No others are staged.
        """
        own = self.file(operator)
        if own is None:
            return []
        if self.place.is_file():
            return [own]
        other_languages = [
            path
            for path in self.place.iterdir()
            if path.suffix in SOURCES
            and path.suffix != ".py"
            and path != own
            and (path.name.startswith("_") or path.suffix != ".cu")
        ]
        return [own, *sorted([*other_languages, *_imported_helpers(own)])]

    def hash(self, operator: str) -> str:
        """Digest of the sources and of how they run."""
        return self._digest(operator, self._contents(operator))

    def _contents(self, operator: str) -> dict[str, bytes]:
        return {path.name: _read(path) for path in self.sources(operator)}

    def _digest(self, operator: str, contents: Mapping[str, bytes]) -> str:
        digest = hashlib.sha256(f"{operator}\0{self.about.compile}\0".encode())
        for name, text in contents.items():
            digest.update(name.encode() + b"\0" + text + b"\0")
        return digest.hexdigest()[:16]

    def required_file(self, operator: str) -> Path:
        """The file of an operator; `UsageError` where there is none."""
        own = self.file(operator)
        if own is None:
            raise UsageError(f"{self.name} has no file for {operator}: name it {operator}.py")
        return own

    def stage(self, operator: str, under: Path) -> Staged:
        """Copy the sources to a separate folder."""
        own, files = self.required_file(operator), self._contents(operator)
        digest, entry = self._digest(operator, files), own.name
        if own.suffix == ".cu":
            entry = f"{own.stem}_entry.py"
            text = CUDA_BUILD.format(source=own.name, name=f"solution_{digest}", function="run")
            files[entry] = text.encode()
        folder = under / f"{digest}-{operator}"
        staged = Staged(folder / entry, digest, {**files, BYTECODE: b""})
        staged.write()
        return staged

    def build_folder(self, operator: str) -> Path:
        """Where what is built of it for an operator is cached, by its content."""
        return cache_folder() / self.hash(operator)


def _imported_helpers(own: Path) -> set[Path]:
    """Files beside `own` whose names begin with `_`, if it or one of them imports them."""
    helpers: set[Path] = set()
    unread = [own] if own.suffix == ".py" else []
    while unread:
        path = unread.pop()
        try:
            tree = ast.parse(_read(path))
        except (SyntaxError, ValueError):
            continue  # It will not run either, and its worker says why.
        except (MemoryError, RecursionError):
            raise InputError(f"{path}: nested too deeply for Python to read it") from None
        names = [
            name
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        ]
        files = {own.with_name(f"{name}.py") for name in names if name.startswith("_")}
        fresh = {path for path in files if _is_there(path)} - helpers - {own}
        helpers |= fresh
        unread += fresh
    return helpers


def _is_there(path: Path) -> bool:
    """Whether there is anything of this name, be it a link to nothing; `InputError` if unknown."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    return True


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _read(path: Path) -> bytes:
    """The contents of a file of a solution; a pipe would be waited for, a device has no end."""
    if encodable(path.name) != path.name:
        raise InputError(f"{encodable(str(path))}: {NOT_UTF8}")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def cache_folder() -> Path:
    """Where built solutions are kept."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # The XDG specification: a relative path is invalid and is ignored.
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            raise UsageError("this user has no home folder; set XDG_CACHE_HOME") from None
    return base / "solscope" / "bench"


def built_in() -> Registry[Solution]:
    """The solutions that ship with solscope, by name.

    One that cannot be read is named in a warning and left out: the others still work.
    """
    registry: Registry[Solution] = Registry("file, folder or built-in solution")
    if FOLDER.is_dir():
        for path in sorted(FOLDER.iterdir()):
            if (path / ABOUT).is_file():
                try:
                    solution = _folder(path)
                except InputError as error:
                    warnings.warn(f"a built-in solution is skipped: {error}", stacklevel=2)
                    continue
                registry.register(solution.name, solution)
    return registry


def find_solution(text: str) -> Solution:
    """A solution by the name of a built-in one, or by the path of a file or folder."""
    if encodable(text) != text:
        raise InputError(f"{encodable(text)}: {NOT_UTF8}")
    path = Path(text)
    if path.suffix == ".py" or os.sep in text or path.is_dir():
        if path.is_file():
            return Solution(path.stem, path.resolve(), About(title=path.stem))
        if path.is_dir():
            return _folder(path.resolve())
        what = (
            "neither a regular file nor a folder" if _is_there(path) else "no such file or folder"
        )
        raise InputError(f"{text}: {what}")
    return built_in().get(text.replace("_", "-"))


def _folder(path: Path) -> Solution:
    name = path.name.replace("_", "-")
    file = path / ABOUT
    if not _is_there(file):
        return Solution(name, path, About(title=name))
    try:
        about = msgspec.convert(parse_toml(_read(file).decode()), About)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{file}: {error}") from None
    except RecursionError:
        raise InputError(f"{file}: nested too deeply") from None
    if about.base is None:
        return Solution(name, path, about)
    if about.base not in {folder.name for folder in FOLDER.iterdir()}:
        raise InputError(f"{file}: base: no built-in solution {about.base!r}")
    return Solution(name, FOLDER / about.base, about)
