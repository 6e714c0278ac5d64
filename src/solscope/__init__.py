"""solscope: where the GPU time of LLM inference goes.

    import solscope

    profile = solscope.open("trace.json.gz")      # any format; chosen by content
    attributed = solscope.attribute(profile)      # launches, operators, categories
    print(solscope.summarize(attributed).gpu_busy_pct)
    for row in solscope.kernels(attributed, by="category").kernels:
        print(row.name, row.total_ns)
    for spot in solscope.hotspots(attributed).hotspots:
        print(spot.operator, spot.recoverable_us)

Names are loaded on first use, so that `import solscope` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from solscope._version import __version__

if TYPE_CHECKING:
    from solscope.attribution import Attributed, attribute
    from solscope.attribution.classify import load_rules
    from solscope.capture.session import Capture as capture  # noqa: N813 - called like a function
    from solscope.compare.gate import gate
    from solscope.compare.kernels import compare_kernels
    from solscope.compare.profiles import compare_profiles
    from solscope.corpus.ingest.add import add_profiles
    from solscope.corpus.queries.importance import importance
    from solscope.corpus.queries.shapes import hot_shapes
    from solscope.corpus.queries.trend import trend
    from solscope.corpus.store import Corpus, create_corpus, open_corpus
    from solscope.diagnose.diagnosis import diagnose_runs
    from solscope.errors import SolscopeError
    from solscope.operators.from_config import load_model
    from solscope.profile import Profile, ProfileWarning
    from solscope.ranks.read import open_run
    from solscope.readers import ReadOptions, find_profiles, open  # noqa: A004
    from solscope.roofline import operator_bound
    from solscope.run import Run
    from solscope.suite import suite_roofline, suite_shapes
    from solscope.views.hotspots import hotspots
    from solscope.views.kernels import kernels
    from solscope.views.layers import layers
    from solscope.views.operators import named_hardware, operator_table
    from solscope.views.ranks import rank_table
    from solscope.views.runs import runs
    from solscope.views.summary import summarize

_HOME = {
    "Attributed": "solscope.attribution",
    "Corpus": "solscope.corpus.store",
    "Profile": "solscope.profile",
    "ProfileWarning": "solscope.profile",
    "ReadOptions": "solscope.readers",
    "Run": "solscope.run",
    "SolscopeError": "solscope.errors",
    "add_profiles": "solscope.corpus.ingest.add",
    "attribute": "solscope.attribution",
    "compare_kernels": "solscope.compare.kernels",
    "compare_profiles": "solscope.compare.profiles",
    "create_corpus": "solscope.corpus.store",
    "diagnose_runs": "solscope.diagnose.diagnosis",
    "find_profiles": "solscope.readers",
    "gate": "solscope.compare.gate",
    "hot_shapes": "solscope.corpus.queries.shapes",
    "hotspots": "solscope.views.hotspots",
    "importance": "solscope.corpus.queries.importance",
    "kernels": "solscope.views.kernels",
    "layers": "solscope.views.layers",
    "load_model": "solscope.operators.from_config",
    "load_rules": "solscope.attribution.classify",
    "named_hardware": "solscope.views.operators",
    "open": "solscope.readers",
    "open_corpus": "solscope.corpus.store",
    "open_run": "solscope.ranks.read",
    "operator_bound": "solscope.roofline",
    "operator_table": "solscope.views.operators",
    "rank_table": "solscope.views.ranks",
    "runs": "solscope.views.runs",
    "suite_roofline": "solscope.suite",
    "suite_shapes": "solscope.suite",
    "summarize": "solscope.views.summary",
    "trend": "solscope.corpus.queries.trend",
}

__all__ = [
    "Attributed",
    "Corpus",
    "Profile",
    "ProfileWarning",
    "ReadOptions",
    "Run",
    "SolscopeError",
    "__version__",
    "add_profiles",
    "attribute",
    "capture",
    "compare_kernels",
    "compare_profiles",
    "create_corpus",
    "diagnose_runs",
    "find_profiles",
    "gate",
    "hot_shapes",
    "hotspots",
    "importance",
    "kernels",
    "layers",
    "load_model",
    "load_rules",
    "named_hardware",
    "open",
    "open_corpus",
    "open_run",
    "operator_bound",
    "operator_table",
    "rank_table",
    "runs",
    "suite_roofline",
    "suite_shapes",
    "summarize",
    "trend",
]


def __getattr__(name: str) -> Any:
    if name == "capture":
        return import_module("solscope.capture")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'solscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
