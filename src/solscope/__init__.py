"""solscope: where the GPU time of LLM inference goes.

    import solscope

    profile = solscope.open("trace.json.gz")      # any format; chosen by content
    attributed = solscope.attribute(profile)      # launches, operators, categories
    print(solscope.summarize(attributed).gpu_busy_pct)
    for row in solscope.kernels(attributed, by="category").kernels:
        print(row.name, row.total_ns)

Names are loaded on first use, so that `import solscope` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from solscope._version import __version__

if TYPE_CHECKING:
    from solscope.attribution import Attributed, attribute
    from solscope.attribution.classify import load_rules
    from solscope.compare.gate import gate
    from solscope.compare.profiles import compare_profiles
    from solscope.corpus.add import add_profiles
    from solscope.corpus.importance import importance
    from solscope.corpus.shapes import hot_shapes
    from solscope.corpus.store import Corpus, create_corpus, open_corpus
    from solscope.corpus.trend import trend
    from solscope.errors import SolscopeError
    from solscope.profile import Profile, ProfileWarning
    from solscope.readers import ReadOptions, find_profiles, open  # noqa: A004
    from solscope.views.kernels import kernels
    from solscope.views.layers import layers
    from solscope.views.ranks import runs
    from solscope.views.summary import summarize

_HOME = {
    "Attributed": "solscope.attribution",
    "Corpus": "solscope.corpus.store",
    "Profile": "solscope.profile",
    "ProfileWarning": "solscope.profile",
    "ReadOptions": "solscope.readers",
    "SolscopeError": "solscope.errors",
    "add_profiles": "solscope.corpus.add",
    "attribute": "solscope.attribution",
    "compare_profiles": "solscope.compare.profiles",
    "create_corpus": "solscope.corpus.store",
    "find_profiles": "solscope.readers",
    "gate": "solscope.compare.gate",
    "hot_shapes": "solscope.corpus.shapes",
    "importance": "solscope.corpus.importance",
    "kernels": "solscope.views.kernels",
    "layers": "solscope.views.layers",
    "load_rules": "solscope.attribution.classify",
    "open": "solscope.readers",
    "open_corpus": "solscope.corpus.store",
    "runs": "solscope.views.ranks",
    "summarize": "solscope.views.summary",
    "trend": "solscope.corpus.trend",
}

__all__ = [
    "Attributed",
    "Corpus",
    "Profile",
    "ProfileWarning",
    "ReadOptions",
    "SolscopeError",
    "__version__",
    "add_profiles",
    "attribute",
    "compare_profiles",
    "create_corpus",
    "find_profiles",
    "gate",
    "hot_shapes",
    "importance",
    "kernels",
    "layers",
    "load_rules",
    "open",
    "open_corpus",
    "runs",
    "summarize",
    "trend",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'solscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
