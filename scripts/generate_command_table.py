"""Write src/solscope/cli/command_table.py: the names of all commands and their short helps.

    python scripts/generate_command_table.py [--check]

The modules in `cli/commands/` are parsed and not imported, so that a command can be found by this
script before the program has it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from generate import ROOT, Files, main

CLI = ROOT / "src" / "solscope" / "cli"
FILE = CLI / "command_table.py"
HEADER = '''\
"""All commands with their short helps, so that `solscope --help` imports none of them.

Written by `make generated` from the modules in `cli/commands/`.
"""

from __future__ import annotations

COMMANDS = {
'''


def files() -> Files:
    """The table."""
    table = short_helps(CLI / "commands")
    lines = [f"    {_quoted(name)}: {_quoted(text)},\n" for name, text in table.items()]
    return {FILE: HEADER + "".join(lines) + "}\n"}


def short_helps(folder: Path) -> dict[str, str]:
    """The short help of each command, in alphabetical order."""
    modules = sorted(folder.glob("[!_]*.py")) + sorted(folder.glob("[!_]*/__init__.py"))
    named = {(path.stem if path.parent == folder else path.parent.name): path for path in modules}
    return {name: short_help(named[name]) for name in sorted(named)}


def short_help(module: Path) -> str:
    """What the decorator of the function `command` declares."""
    for keyword in _keywords(ast.parse(module.read_text(encoding="utf-8"))):
        if keyword.arg == "short_help":
            return str(ast.literal_eval(keyword.value))
    raise SystemExit(f"{module}: no function `command` that is a click command with a short_help")


def _keywords(tree: ast.Module) -> Iterator[ast.keyword]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "command":
            for decorator in node.decorator_list:
                yield from decorator.keywords if isinstance(decorator, ast.Call) else ()


def _quoted(text: str) -> str:
    """A literal as ruff formats it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    sys.exit(main([files]))
