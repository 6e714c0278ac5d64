// The pages, as `solscope.pages` writes them. Only fields that are shown are named here.

export interface Warning { code: string; message: string; }
export interface Coverage { [share: string]: number | null; }
export interface PhaseSteps { phase: string | null; count: number; p50_ms: number; p90_ms: number; p99_ms: number; gap_p50_ms: number | null; requests: number | null; tokens: number | null; tokens_per_s: number | null; tpot_ms: number | null; }
export interface KernelRow { name: string; short_name: string; category: string; calls: number; total_ns: number; mean_ns: number | null; median_ns: number | null; min_ns: number | null; max_ns: number | null; pct: number; }
export interface Verdict {
  kind: string; sentence: string; figures: { name: string; value: number; unit: string }[]; next: string | null;
  busy_pct: number | null; phase: string | null; steps: number;
}
export interface Summary {
  verdict: Verdict;
  path: string; format: string; devices: string[]; framework: string | null; rank: number | null; world_size: number | null;
  events: number; kernels: number;
  gpu_span_ms: number | null; gpu_busy_ms: number | null; gpu_busy_pct: number | null; gpu_idle_pct: number | null;
  kernel_time_ms: number | null; compute_ms: number | null; comm_ms: number | null; exposed_comm_ms: number | null; exposed_comm_pct: number | null;
  memcpy_ms: number | null; exposed_memcpy_ms: number | null;
  coverage: Coverage;
  categories: { category: string; calls: number; time_ms: number; pct: number }[];
  steps: { count: number; cut: number; found_by: string | null; phases: PhaseSteps[] };
  idle: { cause: string; time_ms: number; gaps: number }[];
  per_device: DeviceSummary[];
  warnings: Warning[];
}
export interface DeviceSummary { device: number | null; rank: number | null; name: string; kernels: number; gpu_span_ms: number; gpu_busy_pct: number | null; kernel_time_ms: number; comm_ms: number; exposed_comm_ms: number; }
export interface TimelineStep { step: number; name: string; phase: string | null; start_ms: number; time_ms: number; busy_ms: number; requests: number | null; tokens: number | null; cut: boolean; }
export interface TimeNode { name: string; kind: string; category: string | null; time_ns: number; calls: number; children: TimeNode[]; }
export interface OperatorRow {
  op: string; operator: string; category: string; axes: Record<string, unknown> | null; calls: number; pct: number; total_us: number; time_us: number;
  flop: number; bytes: number; intensity: number | null; tflops: number | null; tbps: number | null; bound_us: number | null; limiter: string | null; efficiency_pct: number | null;
}
export interface Hotspot {
  rank: number; kind: string; operator: string; role: string | null; axes: Record<string, unknown> | null; calls_per_step: number; time_us: number; bound_us: number | null;
  limiter: string | null; efficiency_pct: number | null; recoverable_us: number; recoverable_pct_of_step: number; confidence: string; why: string;
}
export interface Roofs { name: string; title: string; hbm_tbps: number | null; peaks_tflops: Record<string, number>; measured: boolean; }
export interface ProfilePage {
  kind: "profile"; title: string; summary: Summary; timeline: { span_ms: number; steps: TimelineStep[]; left_out: number }; tree: TimeNode; layer_tree: TimeNode | null;
  operators: { hardware: string | null; cost_pct: number | null; operators: OperatorRow[]; no_cost: { op: string; reason: string; calls: number; total_us: number; pct: number }[] } | null;
  hotspots: { hardware: string | null; phase: string | null; steps: number; step_ms: number; target_pct: number; coverage: { cost_pct: number | null }; hotspots: Hotspot[] } | null;
  roofs: Roofs | null; kernels: { total_ns: number; calls: number; kernels: KernelRow[] }; kernels_left_out: number; idle_causes: Record<string, string>;
}

export interface Part { name: string; calls: (number | null)[]; time_ms: (number | null)[]; pct: (number | null)[]; }
export interface Difference { profile: string; by: string; group: string | null; name: string; before_ms: number | null; after_ms: number | null; diff_ms: number; ratio: number | null; }
export interface StepTimes { count: number; time_ms: number; mean_ms: number; p50_ms: number; p90_ms: number; gap_ms: number; gpu_ms: number; overlapped_ms: number; idle_ms: number; requests: number | null; tokens: number | null; }
export interface PhaseComparison { phase: string | null; per: string; steps: (StepTimes | null)[]; gpu_ms: number[]; categories: Part[]; operators: Part[]; kernels: Part[]; differences: Difference[]; }
export interface LayerRow { role: string; operator: string | null; kernels: string[][]; time_us: (number | null)[]; }
export interface LayerGroup { group: string; sum_us: (number | null)[]; rows: LayerRow[]; }
export interface LayerTable {
  profiles: string[]; phase: string | null; per: string; stat: string; passes: number[]; end_to_end_us: number[]; layers_us: number[]; unattributed_us: number[]; idle_us: number[]; overlapped_us: number[];
  outside: LayerGroup[]; layer_kinds: { kind: string; layers: number[]; sum_us: (number | null)[]; groups: LayerGroup[] }[];
}
export interface ComparisonPage {
  kind: "comparison"; title: string;
  comparison: { profiles: { label: string; path: string; devices: string[]; steps: number; cut: number; compared_pct: number | null; coverage: Coverage }[]; phases: PhaseComparison[]; left_out: string[]; warnings: Warning[] };
  layers: LayerTable | null; no_layers: string | null; summaries: Summary[];
}
export interface RankRow { rank: number; path: string; device: string; kernels: number; gpu_span_ms: number | null; gpu_busy_pct: number | null; compute_ms: number | null; comm_ms: number | null; exposed_comm_ms: number | null; }
export interface RankWait { rank: number; collectives: number; transfer_ms: number; wait_ms: number; }
export interface RanksPage {
  kind: "ranks"; title: string; verdict: string; computes_longest: number[]; summaries: Summary[];
  run: { world_size: number | null; ranks: RankRow[]; missing: number[]; skew: { ranks: RankWait[]; slowest: number | null; reason: string | null } | null };
}
export interface Component { component: string; phase: string | null; family: string; normal_ms: number; abnormal_ms: number; delta_ms: number; count_effect_ms: number; duration_effect_ms: number; share_of_delta_pct: number | null; q: number | null; state: string; low_ms: number | null; high_ms: number | null; }
export interface NamedCause { id: string; family: string; title: string; confidence: number; evidence: string[]; against: string[]; explains_pct: number | null; confirm: string; }
export interface CounterChange { name: string; device: number | null; unit: string; part: string; normal: number | null; abnormal: number | null; q: number | null; state: string; }
export interface RunSummary { path: string; steps: number; p50_ms: number | null; p99_ms: number | null; mean_ms: number | null; steps_in_recording: number; dropped: Record<string, number>; overhead_ms: number; samples: number; }
export interface Diagnosis {
  verdict: string; sentence: string; unit: string; normal: RunSummary; abnormal: RunSummary; ratio: number | null; ratio_ci95: number[] | null; typical_ratio: number | null; delta_ms: number | null; mix_effect_ms: number | null;
  components: Component[]; latent: { id: string | null; component: string; text: string; ratio: number | null }[]; causes: NamedCause[]; excluded: { id: string; reason: string }[]; counters: CounterChange[];
  comparability: { level: string; reasons: string[]; factor: number; matched_pct: number[]; noise_floor_pct: number | null; run_noise_pct: number | null }; warnings: string[]; next_step: string;
}
export interface StepTime { start_ms: number; time_ms: number; phase: string | null; whole: boolean; }
export interface SensorLine { name: string; device: number | null; grows: boolean; times_ms: number[][]; values: number[][]; }
export interface DiagnosisPage { kind: "diagnosis"; title: string; labels: string[]; diagnosis: Diagnosis; steps: StepTime[][]; sensors: SensorLine[]; }
export interface OperatorScore { operator: string; importance: number; s: number | null; shapes_passed: number; shapes: number; covered_weight: number; bound_us: number | null; median_us: number | null; published_s: number | null; recoverable: number | null; best: Record<string, number>; }
export interface Score { device: string; suite: string; method: string; solutions: string[]; weighted_s: number | null; weighted_s_all: number | null; covered: number; recoverable: number | null; operators: OperatorScore[]; }
export interface Entry { solution: string; weighted_s: number | null; covered: number; shapes_passed: number; shapes_failed: number; wins: number; operators: Record<string, number | null>; }
export interface BenchShape { operator: string; shape: string; solution: string; status: string; reason: string | null; median_us: number | null; p20_us: number | null; p80_us: number | null; graph_us: number | null; bound_us: number | null; published_us: number | null; limiter: string | null; s: number | null; max_error: number | null; samples: number[]; axes: Record<string, unknown>; weight: number; }
export interface BenchPage { kind: "bench"; title: string; devices: string[]; suites: string[]; leaderboard: { device: string; suite: string; method: string; best: Score; entries: Entry[] }; shapes: BenchShape[]; machine: { command?: string; time?: string; versions?: Record<string, string> }; runs: number; production_s: Record<string, number>; }
export type Page = ProfilePage | ComparisonPage | RanksPage | DiagnosisPage | BenchPage;
export interface ReportData { solscope: string; pages: Page[]; }

// Answers of the dashboard's server (`solscope.web.api`).
export interface Working { id: string; stage: string; seconds: number; }
export interface Overview { solscope: string; profiles: { id: string; label: string; path: string; bytes: number | null }[]; skipped: [string, string][]; results: string[]; solutions: string[]; hardware: string[]; corpus: CorpusPage["status"] | null; upload: boolean; upload_to_store: boolean; }
export interface SuiteRow { operator: string; id: string; dtype: string; shapes: number; importance_pct: number; importance_norm_pct: number; regime: string; intensity: number; sol_us: Record<string, number | null>; prod_us: number; }
export interface Fastest { solution: string; median_us: number; s_pct: number | null; }
export interface Measured { device: string; hardware: string | null; operators: Record<string, { middle: Fastest | null; s_pct: number | null; shapes_passed: number } | undefined>; }
export interface MeasuredShapes { device: string; shapes: Record<string, Fastest | undefined>; }
export interface SuitePage { hardware: string[]; operators: SuiteRow[]; flop: Record<string, number>; median_s_pct: Record<string, number>; roofs: Roofs[]; measured: Measured[]; }
export interface ShapeRow { id: number; axes: Record<string, unknown>; description: string; sol_us: Record<string, number | null>; prod_us: number; s_pct: number; s_exact_pct: number; corrected_sol_us: Record<string, number | null>; }
export interface ShapesPage { operator: string; hardware: string[]; shapes: ShapeRow[]; measured: MeasuredShapes[]; }
export interface ImportanceRow { key: string; importance_pct: number; ci95_pct: [number, number] | null; profiles: number; frequency_pct: number; share_pct: number; time_ms: number; calls: number; p50_us: number | null; p90_us: number | null; bound_p50_us: number | null; s_pct: number | null; recoverable_pct: number | null; operator: string | null; axes: Record<string, unknown> | null; }
export interface ImportanceAnswer { definition: string; by: string; weight: string; profiles: number; total_gpu_ms: number; in_all: number; found: number; rows: ImportanceRow[]; shown_pct: number; warnings: string[]; }
export interface ListedProfile { id: string; file: string; model: string | null; framework: string | null; version: string | null; gpu: string | null; recorded_ns: number | null; tags: Record<string, string>; steps: number; gpu_ms: number; decode_pct: number | null; }
export interface CorpusPage { status: { profiles: number; events: number; bytes: number; gpu_ms: number; engine: string }; profiles: ListedProfile[]; facts: Record<string, string[]>; }
export interface HotShape { id: string; axes: Record<string, unknown>; weight: number; cumulative: number; importance_pct: number; calls: number; p50_us: number | null; bound_p50_us: number | null; s_pct: number | null; shapes: number; origin: { profiles: number; gpus: string[]; models: string[] }; }
export interface HotShapes { operators: { operator: string; importance_pct: number; known_pct: number; distinct: number; cover: number; shapes: HotShape[] }[]; }
export interface Trend { what: string; unit: string; phase: string | null; points: { id: string; file: string; label: string; value: number }[]; changes: { at: number; change_pct: number | null }[]; left_out: number; }
export interface Contrast { a: string[]; b: string[]; ratio: number; low: number; high: number; verdict: string; faster: number; slower: number; cannot_tell: number; shapes: { operator: string; shape: string; a_us: number; b_us: number; ratio: number; low: number; high: number; verdict: string }[]; }
