"""The form of every command's JSON, as JSON Schema made from the types of the results.

To add a command: name its result in `DOCUMENTS`, then run `make schemas`. A test runs the commands
and checks what they print against these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from solscope.attribution.classify import Explanation
from solscope.bench.base import ShapeResult
from solscope.bench.results.contrast import Contrast
from solscope.bench.results.leaderboard import Leaderboard
from solscope.bench.results.score import Score
from solscope.bench.verify import Verification as SuiteVerification
from solscope.cache.report import CacheInfo, Cleared
from solscope.capture.attach import Recording
from solscope.capture.sensors import Missing
from solscope.compare.gate import GateResult
from solscope.compare.profiles import Comparison
from solscope.corpus.ingest.add import AddResult
from solscope.corpus.maintenance.repair import RepairResult
from solscope.corpus.maintenance.verify import Verification
from solscope.corpus.queries.importance import Importance
from solscope.corpus.queries.listing import ListedProfile
from solscope.corpus.queries.shapes import HotShapes
from solscope.corpus.queries.trend import Trend
from solscope.corpus.status import CorpusStatus
from solscope.demo.copying import Copied
from solscope.demo.ended import Ended
from solscope.diagnose.classic import Classic
from solscope.diagnose.diagnosis import Diagnosis
from solscope.environment import Environment
from solscope.export.files import Written
from solscope.hardware import Hardware
from solscope.lab.pack import Packed
from solscope.lab.record import Summary as LabRecording
from solscope.lab.score import LabScore
from solscope.report.json import schema_id
from solscope.report.results.demo import Listing
from solscope.suite.show import OperatorCard
from solscope.suite.tables import ListedRow, RooflineRow, ShapeRow, SuiteRow
from solscope.views.hotspots import HotspotTable
from solscope.views.kernels import KernelTable
from solscope.views.layers import LayerTable
from solscope.views.operators import OperatorTable
from solscope.views.rank_rows import Run
from solscope.views.ranks import RunRanks
from solscope.views.summary import Summary

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _object(name: str, fields: Mapping[str, Any]) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, list(fields.items()))


class Sensor(msgspec.Struct, frozen=True):
    """A sensor that can be recorded."""

    name: str
    metrics: list[str]


_HARDWARE = _object("HardwareList", {"hardware": list[Hardware]})
_RESULTS = _object("BenchResults", {"results": list[ShapeResult]})

DOCUMENTS: dict[str, Any] = {
    "bench_check": _RESULTS,
    "bench_compare": Contrast,
    "bench_leaderboard": Leaderboard,
    "bench_new": _object("NewSolution", {"files": list[str]}),
    "bench_run": _RESULTS,
    "bench_score": Score,
    "cache_clear": Cleared,
    "cache_info": CacheInfo,
    "capture": Recording,
    "capture_list": _object("SensorList", {"sensors": list[Sensor], "missing": list[Missing]}),
    "compare": Comparison,
    "corpus_add": AddResult,
    "corpus_compact": CorpusStatus,
    "corpus_export_suite": _object("ExportedSuite", {"path": str, "operators": int, "shapes": int}),
    "corpus_importance": Importance,
    "corpus_init": CorpusStatus,
    "corpus_list": _object("ProfileList", {"profiles": list[ListedProfile]}),
    "corpus_query": _object("Rows", {"rows": list[dict[str, Any]]}),
    "corpus_remove": _object("Removed", {"removed": list[str]}),
    "corpus_repair": RepairResult,
    "corpus_shapes": HotShapes,
    "corpus_status": CorpusStatus,
    "corpus_trend": Trend,
    "corpus_verify": Verification,
    "demo": Listing,
    "demo_copy": Copied,
    "demo_run": _object("DemoRun", {"commands": list[Ended]}),
    "diagnose": Diagnosis,
    "diagnose_classic": Classic,
    "doctor": Environment,
    "export": _object("Exported", {"written": list[Written], "redacted": dict[str, int] | None}),
    "gate": GateResult,
    "hardware_list": _HARDWARE,
    "hardware_measure": _HARDWARE,
    "hardware_show": _HARDWARE,
    "hotspots": _object("HotspotTables", {"profiles": list[HotspotTable]}),
    "kernels": _object("KernelTables", {"profiles": list[KernelTable]}),
    "kernels_explain": Explanation,
    "lab_pack": Packed,
    "lab_record": LabRecording,
    "lab_score": LabScore,
    "layers": LayerTable,
    "operators": _object("OperatorTables", {"profiles": list[OperatorTable]}),
    "ranks": RunRanks,
    "ranks_several": _object("Runs", {"runs": list[RunRanks]}),
    "report": _object("WrittenReport", {"written": str, "bytes": int, "pages": int}),
    "show": _object("Summaries", {"profiles": list[Summary], "runs": list[Run]}),
    "suite_list": _object("SuiteList", {"operators": list[SuiteRow]}),
    "suite_roofline": _object("SuiteRoofline", {"operators": list[RooflineRow]}),
    "suite_shapes": _object("SuiteShapes", {"shapes": list[ShapeRow]}),
    "suite_shapes_listed": _object("ListedShapes", {"shapes": list[ListedRow]}),
    "suite_show": OperatorCard,
    "suite_verify": _object("SuiteVerification", {"operators": list[SuiteVerification]}),
}
"""Type of each form of output; forms that an option gives are named `COMMAND_OPTION`."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one form."""
    made = msgspec.json.schema(DOCUMENTS[name])
    parts = made.pop("$defs", {})
    main = parts.pop(made["$ref"].rpartition("/")[2])
    identity = schema_id(name)
    return {
        "$schema": DIALECT,
        "$id": identity,
        **main,
        "properties": {"schema": {"const": identity}, **main["properties"]},
        "required": ["schema", *main.get("required", [])],
        **({"$defs": dict(sorted(parts.items()))} if parts else {}),
    }
