"""`solscope` and `python -m solscope`: start the program, and end quietly on Ctrl-C."""

import gc
import os
import sys

COLLECT_EVERY = 250_000
"""Objects made between two runs of the garbage collector. A report makes a little over 100,000 and
keeps them; a run over these takes 40 ms."""


def main() -> None:
    """Run the program. Ctrl-C can come while it is imported, too."""
    # By default the collector walks everything imported a hundred times before a command has begun.
    gc.set_threshold(COLLECT_EVERY, 50, 50)
    try:
        from solscope.late import STANDARD, import_on_first_use

        import_on_first_use(STANDARD)
        from solscope.cli import main as run_program

        run_program()
    except KeyboardInterrupt:
        sys.stderr.write("solscope: interrupted\n")
        os._exit(130)


if __name__ == "__main__":
    main()
