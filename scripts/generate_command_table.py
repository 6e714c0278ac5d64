"""Write the table of commands, and what there is to try for those that the tour leaves out.

    python scripts/generate_command_table.py [--check]

`src/solscope/cli/command_table.py` has the names of all commands and their short helps.
`src/solscope/demo/more_examples.py` has the first example with a `demo:` file in the help of each
command that no example of `demo/examples.py` runs.

The modules in `cli/commands/` are parsed and not imported, so that a command can be found by this
script before the program has it.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from generate import ROOT, Files, main

from solscope.demo.examples import TOUR

CLI = ROOT / "src" / "solscope" / "cli"
FILE = CLI / "command_table.py"
HEADER = '''\
"""All commands with their short helps, so that `solscope --help` imports none of them.

Written by `make generated` from the modules in `cli/commands/`.
"""

from __future__ import annotations

COMMANDS = {
'''
MORE = ROOT / "src" / "solscope" / "demo" / "more_examples.py"
MORE_HEADER = '''\
"""Something to try for each command that is not in the tour of `examples.py`.

Written by `make generated` from the examples in the help texts.
"""

from __future__ import annotations

MORE_EXAMPLES: dict[str, tuple[str, str]] = {'''
_DEMO_LINE = re.compile(r"^ +solscope (.*\bdemo:.*)$", re.MULTILINE)


def files() -> Files:
    """The table and the examples."""
    modules = command_modules(CLI / "commands")
    helps = {name: short_help(module) for name, module in modules.items()}
    lines = [f"    {_quoted(name)}: {_quoted(text)},\n" for name, text in helps.items()]
    return {FILE: HEADER + "".join(lines) + "}\n", MORE: more_examples(modules, helps)}


def command_modules(folder: Path) -> dict[str, Path]:
    """The module of each command, in alphabetical order."""
    modules = sorted(folder.glob("[!_]*.py")) + sorted(folder.glob("[!_]*/__init__.py"))
    named = {(path.stem if path.parent == folder else path.parent.name): path for path in modules}
    return {name: named[name] for name in sorted(named)}


def more_examples(modules: dict[str, Path], helps: dict[str, str]) -> str:
    """The file of examples that the tour does not have."""
    toured = {shlex.split(line)[0] for example in TOUR for line in example.commands}
    rows = []
    for name in modules.keys() - toured:
        if line := _DEMO_LINE.search(modules[name].read_text(encoding="utf-8")):
            texts = f"        {_quoted(helps[name])},\n        {_quoted(line[1])},\n"
            rows.append(f"    {_quoted(name)}: (\n{texts}    ),\n")
    return MORE_HEADER + ("\n" + "".join(sorted(rows)) if rows else "") + "}\n"


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
