"""Where the rules for ACME's kernels are."""

from __future__ import annotations

from pathlib import Path

RULES = Path(__file__).with_name("rules.toml")
