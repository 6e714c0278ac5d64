// The answers of the JSON API and the pages of reports. Written by `make generated`
// (scripts/generate_types.py) from the Python types: change those.

export interface Allocating {
  op: string;
  calls: number;
  bytes: number;
  pct: number | null;
}

export interface Band {
  runs: number;
  mean_ms: number;
  low_ms: number;
  high_ms: number;
  noise_pct: number;
  run_ms: number;
  z: number | null;
  outside: number;
  typical: string;
}

export interface BenchPage {
  kind: "bench";
  title: string;
  headline: Headline;
  devices: string[];
  suites: string[];
  time: string;
  leaderboard: Leaderboard;
  shapes: BenchShape[];
  machine: BenchRun;
  runs: number;
  production_s: Record<string, number>;
}

export interface BenchRun {
  time: string | null;
  command: string | null;
  versions: Record<string, string> | null;
}

export interface BenchShape {
  operator: string;
  shape: string;
  solution: string;
  status: string;
  reason: string | null;
  median_us: number | null;
  p20_us: number | null;
  p80_us: number | null;
  graph_us: number | null;
  bound_us: number | null;
  published_us: number | null;
  limiter: string | null;
  s: number | null;
  max_error: number | null;
  samples: number[];
  axes: Record<string, unknown>;
  weight: number;
}

export interface CategoryTime {
  category: string;
  calls: number;
  time_ms: number;
  pct: number;
}

export interface ChangePoint {
  step: number;
  before_ms: number;
  after_ms: number;
  ratio: number;
  p: number;
}

export interface Clock {
  method: string;
  error_us: number | null;
  spread_us: number | null;
  recorded_apart_us: number | null;
  reason: string | null;
  ranks: RankClock[];
}

export interface CollectiveRow {
  kind: string;
  group: string | null;
  ranks: number;
  bytes: number | null;
  calls: number;
  transfer_us: number;
  wait_us: number;
  hidden_us: number;
  baseline_us: number | null;
  algbw_gbs: number | null;
  busbw_gbs: number | null;
  bound_gbs: number | null;
  class: string;
  by_class: Record<string, number>;
}

export interface CollectiveSkew {
  ranks: RankWait[];
  slowest: number | null;
  reason: string | null;
}

export interface Comparability {
  level: "good" | "refuse" | "weak";
  reasons: string[];
  factor: number;
  matched_pct: number[];
  phases: Record<string, number[]>;
  noise_floor_pct: number | null;
  run_noise_pct: number | null;
}

export interface ComparisonPage {
  kind: "comparison";
  title: string;
  headline: Headline;
  comparison: ProfilesComparison;
  layers: LayerTable | null;
  no_layers: string | null;
  kernels: KernelComparison | null;
  summaries: Summary[];
}

export interface ComparisonVerdict {
  sentence: string;
  figures: Figure[];
  next: string | null;
  next_shows: "kernels" | "why";
  outcome: "improvement" | "no_change" | "regression" | "workload_changed" | null;
  because: string[];
  advice: string | null;
  legend: string | null;
}

export interface Component {
  component: string;
  phase: string | null;
  family: string;
  normal_ms: number;
  abnormal_ms: number;
  delta_ms: number;
  count_effect_ms: number;
  duration_effect_ms: number;
  share_of_delta_pct: number | null;
  q: number | null;
  state: "changed" | "not_tested" | "unchanged" | "unclear";
  low_ms: number | null;
  high_ms: number | null;
  test: TwoSamplesComparison;
}

export interface Contrast {
  device: string;
  suite: string;
  method: string;
  only: string[];
  a: string[];
  b: string[];
  ratio: number;
  low: number;
  high: number;
  verdict: "cannot tell" | "faster" | "slower";
  sentence: string;
  faster: number;
  slower: number;
  cannot_tell: number;
  only_a: number;
  only_b: number;
  uneven: number;
  operators: OperatorContrast[];
  shapes: ShapeContrast[];
}

export interface CorpusPage {
  status: CorpusStatus;
  profiles: StoreProfile[];
  in_all: number;
  found: number;
  start: number;
  most: number;
  series: StoreSeries[];
  facts: Record<string, string[]>;
}

export interface CorpusStatus {
  profiles: number;
  events: number;
  bytes: number;
  store_schema: number;
  engine: string;
  gpu_ms: number;
  files: number;
  leftover_entries: number;
  gpus: Record<string, number>;
  models: Record<string, number>;
  frameworks: Record<string, number>;
}

export interface CostModel {
  name: string;
  warnings: ProfileWarning[];
}

export interface CounterChange {
  name: string;
  device: number | null;
  unit: string;
  part: "consequence" | "driver";
  normal: number | null;
  abnormal: number | null;
  q: number | null;
  state: "changed" | "missing" | "not_tested" | "unchanged" | "unclear";
  test: TwoSamplesComparison;
}

export interface CoverageSummary {
  linked_pct: number | null;
  classified_pct: number | null;
  generic_pct: number | null;
  op_pct: number | null;
  shapes_pct: number | null;
  operator_pct: number | null;
  layer_pct: number | null;
  role_pct: number | null;
}

export interface DeviceSummary {
  device: number | null;
  rank: number | null;
  name: string;
  kernels: number;
  gpu_span_ms: number;
  gpu_busy_ms: number;
  gpu_busy_pct: number | null;
  gpu_idle_pct: number | null;
  kernel_time_ms: number;
  compute_ms: number;
  comm_ms: number;
  exposed_comm_ms: number;
  exposed_comm_pct: number | null;
  memcpy_ms: number;
  exposed_memcpy_ms: number;
  idle: IdleCause[];
}

export interface Diagnosis {
  verdict: "cannot_compare" | "improvement" | "no_change" | "regression" | "workload_changed";
  sentence: string;
  figures: Figure[];
  unit: string;
  normal: RunSummary;
  abnormal: RunSummary;
  ratio: number | null;
  ratio_ci95: number[] | null;
  typical_ratio: number | null;
  delta_ms: number | null;
  mix_effect_ms: number | null;
  scope: "both" | "mean" | "tail" | null;
  outliers: Outliers | null;
  tails: TailQuantile[];
  components: Component[];
  latent: Latent[];
  causes: NamedCause[];
  hidden_causes: NamedCause[];
  missing_evidence: string[];
  excluded: Excluded[];
  counters: CounterChange[];
  comparability: Comparability;
  warnings: string[];
  next_step: string;
  baseline: Band | null;
  ranks: RankCause | null;
  why: string | null;
  settled: boolean;
}

export interface DiagnosisPage {
  kind: "diagnosis";
  title: string;
  labels: string[];
  diagnosis: Diagnosis;
  figures: Figure[];
  severity: "attention" | "bad" | "good" | "neutral";
  steps: StepTime[][];
  sensors: SensorLine[];
}

export interface Difference {
  profile: string;
  by: "category" | "role" | "time";
  group: string | null;
  name: string;
  before_ms: number | null;
  after_ms: number | null;
  diff_ms: number;
  ratio: number | null;
}

export interface Drift {
  ratio: number;
  low: number;
  high: number;
}

export interface EfficiencyTable {
  profile: string;
  hardware: string;
  by: "layer" | "phase" | "step";
  peaks: Record<string, number>;
  rows: Rates[];
  graph_replays: boolean;
  basis: StepBasis[];
}

export interface Entry {
  solution: string;
  weighted_s: number | null;
  s_covered: number | null;
  covered: number;
  shapes_passed: number;
  shapes_failed: number;
  shapes_unsupported: number;
  declined: number;
  wins: number;
  operators: Record<string, number | null>;
}

export interface Error {
  error: string;
}

export interface EventBlock {
  from_ns: number;
  to_ns: number;
  parts: LanePart[];
  packed: Packed;
}

export interface EventTimeline {
  origin_ns: number;
  span_ns: number;
  focus: [number, number];
  events: number;
  complete: boolean;
  levels: number[];
  tile: number;
  lanes: Lane[];
  labels: Label[];
  block: EventBlock;
  sensors: Sensor[];
  sensors_left_out: number;
  too_deep: number;
}

export interface Excluded {
  id: string;
  reason: string;
  ruled_out: boolean;
}

export interface Execution {
  graphs: GraphUse | null;
  graph_launches: number | null;
  graphs_by_phase: GraphUse[];
  compiled_pct: number | null;
  compiled_regions: number | null;
  speculative: boolean | null;
  chunked_prefill: boolean | null;
  overlap_pct: number | null;
  concurrent_pct: number | null;
  dtypes: Share[];
  attention: Share[] | null;
  moe: Share[] | null;
  unknown: Record<string, string>;
}

export interface Fastest {
  solution: string;
  median_us: number;
  s_pct: number | null;
}

export interface Figure {
  name: string;
  value: number;
  unit: "%" | "ms" | "\u00d7";
  scope: string;
}

export interface Found {
  lane: number;
  label: number;
  start_ns: number;
  dur_ns: number;
}

export interface GraphUse {
  phase: string | null;
  kernels: number;
  kernels_pct: number;
  time_pct: number | null;
}

export interface Group {
  group: string;
  sum_us: (number | null)[];
  rows: Row[];
}

export interface Headline {
  sentence: string;
  figures: Figure[];
  severity: "attention" | "bad" | "good" | "neutral";
  advice: string | null;
  legend: string | null;
}

export interface HostTable {
  profile: string;
  span_ms: number;
  waiting_ms: number;
  waiting_pct: number | null;
  sections: Waiting[];
  operators: Waiting[];
  frames: Waiting[];
  basis: StepBasis[];
  between_steps_ms: number | null;
  between: Waiting[];
  launches: number;
  launches_per_s: number | null;
  launch_us: number | null;
  faster_launches_us: number;
  faster_ms: number | null;
  queue_mean: number | null;
  queue_empty_pct: number | null;
  queue: QueuePart[];
  path_gpu_ms: number;
  path_host_ms: number;
  path_launch_ms: number;
  path_sync_ms: number;
  path: PathPart[];
  path_operators: OperatorSlack[];
  stacks: WaitingStack[];
}

export interface HotShape {
  id: string;
  axes: Record<string, unknown>;
  weight: number;
  cumulative: number;
  importance_pct: number;
  calls: number;
  p50_us: number | null;
  bound_p50_us: number | null;
  s_pct: number | null;
  shapes: number;
  spans: Record<string, [number, number]>;
  origin: ShapeOrigin;
}

export interface HotShapes {
  cover: number;
  buckets: boolean;
  weight: string;
  profiles: number;
  operators: OperatorShapes[];
}

export interface Hotspot {
  rank: number;
  kind: "comm" | "copy" | "fusion" | "idle" | "imbalance" | "operator";
  operator: string;
  role: string | null;
  axes: Record<string, unknown> | null;
  calls_per_step: number;
  time_us: number;
  bound_us: number | null;
  limiter: string | null;
  expected_us: number | null;
  efficiency_pct: number | null;
  recoverable_us: number;
  recoverable_pct_of_step: number;
  confidence: "high" | "low" | "medium";
  why: string;
  advice: string;
}

export interface HotspotCoverage {
  cost_pct: number | null;
  graph_replays: boolean;
}

export interface HotspotTable {
  profile: string;
  hardware: string | null;
  phase: string | null;
  steps: number;
  basis: StepBasis;
  step_ms: number;
  target_pct: number;
  coverage: HotspotCoverage;
  hotspots: Hotspot[];
  no_hardware: string | null;
}

export interface IdleCause {
  cause: string;
  time_ms: number;
  gaps: number;
}

export interface Imbalance {
  tokens_max_over_mean: number | null;
  of: string | null;
  rank: number | null;
  by_layer: LayerLoad[];
}

export interface ImportancePage {
  headline: Headline;
  definition: string;
  by: "category" | "kernel" | "operator" | "role" | "shape";
  weight: string;
  profiles: number;
  total_gpu_ms: number;
  in_all: number;
  found: number;
  start: number;
  rows: ImportanceRow[];
  shown_pct: number;
  warnings: string[];
}

export interface ImportanceRow {
  key: string;
  importance_pct: number;
  ci95_pct: [number, number] | null;
  profiles: number;
  frequency_pct: number;
  share_pct: number;
  time_ms: number;
  calls: number;
  mean_us: number | null;
  bound_mean_us: number | null;
  p50_us: number | null;
  p90_us: number | null;
  bound_p50_us: number | null;
  s_pct: number | null;
  bound_cover_pct: number;
  recoverable_pct: number | null;
  operator: string | null;
  axes: Record<string, unknown> | null;
}

export interface KernelChange {
  relation: "changed" | "fused" | "gone" | "new" | "replaced" | "same" | "split";
  matched_by: "family" | "launch" | "name" | "operator" | "order" | "position" | "role" | null;
  group: string | null;
  role: string | null;
  category: string;
  before: KernelUse[];
  after: KernelUse[];
  before_ms: number;
  after_ms: number;
  diff_ms: number;
  low_ms: number | null;
  high_ms: number | null;
  differs: boolean | null;
}

export interface KernelComparison {
  before: string;
  after: string;
  phases: PhaseKernels[];
  warnings: ProfileWarning[];
}

export interface KernelRow {
  name: string;
  short_name: string;
  category: string;
  calls: number;
  total_ns: number;
  mean_ns: number | null;
  median_ns: number | null;
  min_ns: number | null;
  max_ns: number | null;
  std_ns: number | null;
  pct: number;
  detail: string | null;
  rule: string | null;
  helper_ns: number;
  inferred: boolean;
  borrowed_ns: number;
}

export interface KernelTable {
  profile: string;
  by: string;
  total_ns: number;
  calls: number;
  kernels: KernelRow[];
}

export interface KernelTime {
  name: string;
  time_us: number;
}

export interface KernelUse {
  name: string;
  calls_per_step: number;
  mean_us: number;
  total_ns: number;
  absorbed: boolean;
}

export interface KvCacheUse {
  metric: string;
  samples: number;
  mean_pct: number;
  peak_pct: number;
}

export interface Label {
  name: string;
  category: string | null;
  role: string | null;
  op: string | null;
  full: string | null;
}

export interface Lane {
  kind: "call" | "gpu" | "idle" | "layer" | "pass" | "stack" | "step";
  title: string;
  depth: number;
  rank: number | null;
  device: number | null;
  events: number;
}

export interface LanePart {
  lane: number;
  level: number;
  rows: number;
}

export interface Latent {
  id: string | null;
  component: string;
  text: string;
  ratio: number | null;
  ms: number;
}

export interface LayerCoverage {
  layer_pct: number[];
  role_pct: number[];
  sure_pct: number[];
}

export interface LayerKind {
  kind: string;
  layers: number[];
  sum_us: (number | null)[];
  groups: Group[];
}

export interface LayerLoad {
  layer: number;
  tokens: (number | null)[];
  max_over_mean: number;
  rank: number;
}

export interface LayerTable {
  profiles: string[];
  phase: string | null;
  per: string;
  stat: string;
  passes: number[];
  end_to_end_us: number[];
  layers_us: number[];
  unattributed_us: number[];
  idle_us: number[];
  overlapped_us: number[];
  overlaps: Overlap[];
  outside: Group[];
  coverage: LayerCoverage;
  layer_kinds: LayerKind[];
  warnings: ProfileWarning[][];
  basis: StepBasis[][];
}

export interface Leaderboard {
  device: string;
  suite: string;
  method: string;
  only: string[];
  best: Score;
  entries: Entry[];
}

export interface LeftOut {
  cut: number;
  first: number;
  last: number;
  outlier: number;
}

export interface Measured {
  device: string;
  hardware: string | null;
  operators: Record<string, MeasuredOperator>;
}

export interface MeasuredOperator {
  middle: Fastest | null;
  s_pct: number | null;
  shapes_passed: number;
}

export interface MeasuredShapes {
  device: string;
  shapes: Record<string, Fastest>;
}

export interface MemoryTable {
  profile: string;
  device: number;
  events: number;
  first_bytes: number;
  peak_bytes: number;
  last_bytes: number;
  reserved_bytes: number;
  fragmentation_pct: number | null;
  peak_op: string;
  peak_step: number | null;
  steps: number;
  basis: StepBasis[];
  allocations_per_step: number | null;
  allocated_per_step: number | null;
  growth_per_step: number | null;
  operators: Allocating[];
  kv_cache: KvCacheUse | null;
}

export interface ModelEntry {
  id: string;
  label: string;
}

export interface NamedCause {
  id: string;
  family: string;
  title: string;
  confidence: number;
  evidence: string[];
  against: string[];
  explains_pct: number | null;
  confirm: string;
  part_pct: number | null;
}

export interface NextEvent {
  event: Found | null;
}

export interface NoCost {
  op: string;
  reason: string;
  calls: number;
  total_us: number;
  pct: number;
}

export interface OneSided {
  by: "category" | "kernel" | "role";
  name: string;
  time_ms: (number | null)[];
}

export interface OperatorContrast {
  operator: string;
  shapes: number;
  faster: number;
  slower: number;
  share_pct: number;
  ratio: number;
  change_pct: number;
}

export interface OperatorRow {
  op: string;
  operator: string;
  category: string;
  axes: Record<string, unknown> | null;
  calls: number;
  inferred_calls: number;
  pct: number;
  total_us: number;
  time_us: number;
  flop: number;
  bytes: number;
  intensity: number | null;
  tflops: number | null;
  tbps: number | null;
  bound_us: number | null;
  limiter: string | null;
  missing: string[];
  efficiency_pct: number | null;
  best_pct: number | null;
  expected_us: number | null;
  expected_pct: number | null;
  hbm_us: number | null;
  hbm_pct: number | null;
  source: string | null;
}

export interface OperatorScore {
  operator: string;
  importance: number;
  s: number | null;
  s_passed: number | null;
  shapes_passed: number;
  shapes: number;
  covered_weight: number;
  bound_us: number | null;
  median_us: number | null;
  published_s: number | null;
  recoverable: number | null;
  best: Record<string, number>;
}

export interface OperatorShapes {
  operator: string;
  importance_pct: number;
  known_pct: number;
  distinct: number;
  cover: number;
  shapes: HotShape[];
}

export interface OperatorSlack {
  operator: string;
  activities: number;
  time_ms: number;
  on_path_ms: number;
  least_slack_us: number;
  median_slack_us: number;
}

export interface OperatorTable {
  profile: string;
  hardware: string | null;
  by: "operator" | "shape";
  bound: "corrected" | "published";
  total_us: number;
  cost_pct: number | null;
  operators: OperatorRow[];
  no_cost: NoCost[];
  graph_replays: boolean;
  no_hardware: string | null;
}

export interface Outliers {
  steps: number;
  of_steps: number;
  normal_steps: number;
  share_of_time_pct: number;
  p: number | null;
  cause: string | null;
  where: string | null;
}

export interface Overlap {
  role: string;
  under: string;
  time_us: number[];
}

export interface Overview {
  solscope: string;
  profiles: ProfileEntry[];
  skipped: [string, string][];
  results: string[];
  solutions: string[];
  hardware: string[];
  models: ModelEntry[];
  corpus: CorpusStatus | null;
  upload: boolean;
  upload_to_store: boolean;
}

export interface Packed {
  columns: [string, number][];
  data: string;
}

export interface Part {
  name: string;
  calls: (number | null)[];
  total_ns: (number | null)[];
  time_ms: (number | null)[];
  pct: (number | null)[];
}

export interface PathPart {
  category: string;
  time_ms: number;
  on_path_ms: number;
  idle_after_ms: number;
}

export interface PhaseComparison {
  phase: string | null;
  per: "profile" | "step";
  steps: (StepTimes | null)[];
  gpu_ns: number[];
  gpu_ms: number[];
  categories: Part[];
  operators: Part[];
  kernels: Part[];
  differences: Difference[];
  only: OneSided[];
}

export interface PhaseKernels {
  phase: string | null;
  per: "profile" | "step";
  steps: (number | null)[];
  basis: StepBasis[];
  devices: (number | null)[];
  before_ms: number;
  after_ms: number;
  diff_ms: number;
  matched_pct: number[];
  rows: KernelChange[];
}

export interface PhaseSteps {
  phase: string | null;
  basis: StepBasis;
  count: number;
  p50_ms: number;
  p90_ms: number | null;
  p99_ms: number | null;
  slowest_ms: number;
  gap_p50_ms: number | null;
  requests: number | null;
  tokens: number | null;
  tokens_per_s: number | null;
  tpot_ms: number | null;
}

export interface Pipeline {
  stages: Stage[];
  bubble_pct: number;
  occupied_longest: number;
}

export interface ProcessGroup {
  name: string;
  parallelism: string | null;
  ranks: number[];
}

export interface ProfileCard {
  gpu: string | null;
  model: string | null;
  framework: string | null;
  rank: number | null;
  recorded_ns: number | null;
  phase: string | null;
  step_ms: number | null;
  busy_pct: number | null;
  finding: string;
  sentence: string;
  spark_ms: number[];
}

export interface ProfileDetails {
  host: HostTable | null;
  no_host: string | null;
  memory: MemoryTable[];
}

export interface ProfileEntry {
  id: string;
  label: string;
  path: string;
  bytes: number | null;
  card: ProfileCard | null;
}

export interface ProfilePage {
  kind: "profile";
  title: string;
  summary: Summary;
  timeline: Timeline;
  tree: TimeNode;
  icicle: TimeNode | null;
  operators: OperatorTable | null;
  hotspots: HotspotTable | null;
  to_do: ToDo[];
  unranked: Unranked | null;
  severity: "attention" | "bad" | "good" | "neutral";
  model: CostModel | null;
  roofs: Roofs | null;
  kernels: KernelTable;
  kernels_left_out: number;
  idle_causes: Record<string, string>;
  efficiency: EfficiencyTable | null;
  details: ProfileDetails | null;
  events: EventTimeline | null;
}

export interface ProfileWarning {
  code: string;
  message: string;
}

export interface ProfilesComparison {
  verdict: ComparisonVerdict;
  profiles: Side[];
  phases: PhaseComparison[];
  left_out: string[];
  warnings: ProfileWarning[];
}

export interface QueuePart {
  start_ms: number;
  mean: number;
  most: number;
  empty_pct: number | null;
}

export interface RangeRow {
  label: number;
  calls: number;
  total_ns: number;
  max_ns: number;
}

export interface RangeSums {
  from_ns: number;
  to_ns: number;
  gpu: RangeRow[];
  idle: RangeRow[];
  calls: RangeRow[];
}

export interface RankCause {
  culprit: number | null;
  confidence: number;
  why: string;
  step_ratio: number | null;
  cost_ms: number | null;
  evidence: string[];
  runs: string[];
  compared: number | null;
}

export interface RankClock {
  rank: number;
  offset_us: number | null;
  drift_ppm: number | null;
  error_us: number | null;
  collectives: number;
}

export interface RankLane {
  rank: number;
  start_us: number[];
  wait_us: number[];
  transfer_us: number[];
  kind: number[];
}

export interface RankLanes {
  kinds: string[];
  span_us: number;
  steps: [number, number][];
  lanes: RankLane[];
  left_out: number;
}

export interface RankRow {
  rank: number;
  path: string;
  device: string;
  kernels: number;
  gpu_span_ms: number | null;
  gpu_busy_ms: number | null;
  gpu_busy_pct: number | null;
  kernel_time_ms: number | null;
  compute_ms: number | null;
  comm_ms: number | null;
  exposed_comm_ms: number | null;
  exposed_comm_pct: number | null;
  memcpy_ms: number | null;
}

export interface RankTimes {
  rank: number;
  path: string;
  device: string | null;
  host: string | null;
  steps: number;
  step_ms: number | null;
  compute_ms: number | null;
  comm_ms: number | null;
  wait_ms: number | null;
  overlap_ms: number | null;
  held_ms: number | null;
  host_ms: number | null;
  cost_ms: number | null;
  last: number;
  requests: number | null;
  tokens: number | null;
  received_tokens: number | null;
}

export interface RankWait {
  rank: number;
  collectives: number;
  transfer_ms: number;
  wait_ms: number;
}

export interface RanksPage {
  kind: "ranks";
  title: string;
  headline: Headline;
  run: Run;
  table: RunRanks;
  lanes: RankLanes | null;
  summaries: Summary[];
}

export interface Rates {
  name: string;
  count: number;
  time_ms: number;
  gpu_ms: number;
  cost_pct: number | null;
  tflop: number | null;
  model_gb: number | null;
  all_gb: number | null;
  mfu_pct: number | null;
  mbu_pct: number | null;
  hbm_pct: number | null;
  sol_ms: number | null;
  sol_pct: number | null;
  overlap_sol_ms: number | null;
  overlap_sol_pct: number | null;
  tokens_per_s: number | null;
}

export interface RooflineRow {
  operator: string;
  id: string;
  dtype: string;
  shapes: number;
  importance_pct: number;
  importance_norm_pct: number;
  regime: "C" | "I" | "M";
  intensity: number;
  sol_us: Record<string, number | null>;
  prod_us: number;
}

export interface Roofs {
  name: string;
  title: string;
  hbm_tbps: number | null;
  l2_tbps: number | null;
  l1_tbps: number | null;
  peaks_tflops: Record<string, number>;
  measured: boolean;
}

export interface Row {
  role: string;
  operator: string | null;
  kernels: string[][];
  modules: string[][];
  time_us: (number | null)[];
  kernel_times: KernelTime[][];
}

export interface Run {
  name: string;
  world_size: number | null;
  ranks: RankRow[];
  missing: number[];
  skew: CollectiveSkew | null;
}

export interface RunRanks {
  name: string;
  verdict: string;
  legend: string | null;
  world_size: number | null;
  missing: number[];
  steps: number;
  step_ms: number | null;
  clock: Clock;
  groups: ProcessGroup[];
  ranks: RankTimes[];
  collectives: CollectiveRow[];
  unmatched: number;
  unmatched_by_rank: Record<string, number>;
  straggler: Straggler;
  imbalance: Imbalance;
  pipeline: Pipeline | null;
  warnings: ProfileWarning[];
}

export interface RunSensor {
  line: SensorLine;
  unit: string;
  part: "consequence" | "driver";
}

export interface RunSummary {
  path: string;
  steps: number;
  p50_ms: number | null;
  p99_ms: number | null;
  mean_ms: number | null;
  steps_in_recording: number;
  dropped: Record<string, number>;
  overhead_ms: number;
  samples: number;
}

export interface Score {
  device: string;
  suite: string;
  method: string;
  only: string[];
  solutions: string[];
  weighted_s: number | null;
  s_covered: number | null;
  covered: number;
  recoverable: number | null;
  operators: OperatorScore[];
}

export interface Sensor {
  name: string;
  device: number | null;
  low: number;
  high: number;
  times_ns: number[];
  values: number[];
}

export interface SensorLine {
  name: string;
  device: number | null;
  times_ms: number[][];
  values: number[][];
}

export interface ShapeContrast {
  operator: string;
  shape: string;
  a_solution: string;
  b_solution: string;
  a_us: number;
  b_us: number;
  ratio: number;
  low: number;
  high: number;
  verdict: "cannot tell" | "faster" | "slower";
  processes: [number, number];
  other_machine: boolean;
}

export interface ShapeOrigin {
  profiles: number;
  gpus: string[];
  models: string[];
  frameworks: string[];
  phases: string[];
  roles: string[];
  kernels: string[];
  example: string;
}

export interface ShapeRow {
  id: number;
  axes: Record<string, unknown>;
  description: string;
  sol_us: Record<string, number | null>;
  prod_us: number;
  s_pct: number;
  s_exact_pct: number;
  corrected_sol_us: Record<string, number | null>;
}

export interface ShapesPage {
  operator: string;
  hardware: string[];
  shapes: ShapeRow[];
  measured: MeasuredShapes[];
}

export interface Share {
  name: string;
  pct: number;
}

export interface Side {
  label: string;
  path: string;
  format: string;
  devices: string[];
  steps: number;
  cut: number;
  compared_pct: number | null;
  coverage: CoverageSummary;
}

export interface SingleDiagnosis {
  verdict: "bursty" | "cannot_tell" | "change_point" | "drift" | "periodic" | "steady";
  sentence: string;
  figures: Figure[];
  core_wait_pct: number | null;
  run: RunSummary;
  drift: Drift | null;
  change_points: ChangePoint[];
  outliers: SlowStepsOfRun | null;
  compared: number[];
  delta_ms: number | null;
  components: Component[];
  causes: NamedCause[];
  missing_evidence: string[];
  excluded: Excluded[];
  warnings: string[];
  next_step: string;
}

export interface SinglePage {
  kind: "single";
  title: string;
  diagnosis: SingleDiagnosis;
  severity: "attention" | "bad" | "good" | "neutral";
  steps: StepOfRun[];
  sensors: RunSensor[];
}

export interface SlowStepsOfRun {
  steps: number;
  of_steps: number;
  numbers: number[];
  share_of_time_pct: number;
  every: number | null;
  p: number | null;
}

export interface Stage {
  stage: number;
  ranks: number[];
  compute_ms: number;
  receive_ms: number;
  send_ms: number;
  other_ms: number;
  host_ms: number;
  held_ms: number;
  bubble_pct: number;
}

export interface StepBasis {
  phase: string | null;
  steps: number;
  of: number;
  step_ms: number;
  measured: "extent" | "recording" | "start_to_start" | "stated";
  left_out: LeftOut;
  outlier_ms: number | null;
}

export interface StepOfRun {
  number: number;
  start_ms: number;
  time_ms: number;
  phase: string | null;
  looked_at: boolean;
}

export interface StepSummary {
  count: number;
  cut: number;
  found_by: string | null;
  phases: PhaseSteps[];
}

export interface StepTime {
  start_ms: number;
  time_ms: number;
  phase: string | null;
  whole: boolean;
}

export interface StepTimes {
  count: number;
  basis: StepBasis;
  devices: number;
  time_ms: number;
  mean_ms: number;
  p50_ms: number;
  p90_ms: number | null;
  gap_ms: number;
  gap_p50_ms: number | null;
  gap_p90_ms: number | null;
  gpu_ms: number;
  overlapped_ms: number;
  idle_ms: number;
  busy_pct: number | null;
  requests: number | null;
  tokens: number | null;
}

export interface StoreProfile {
  id: string;
  file: string;
  model: string | null;
  framework: string | null;
  version: string | null;
  gpu: string | null;
  recorded_ns: number | null;
  tags: Record<string, string>;
  steps: number;
  gpu_ms: number;
  decode_pct: number | null;
}

export interface StoreSeries {
  model: string | null;
  gpu: string | null;
  profiles: number;
}

export interface Straggler {
  rank: number | null;
  confidence: number;
  step_share_pct: number | null;
  why: string;
  evidence: string[];
  leader: number | null;
  pattern: string;
  all_share_pct: number | null;
  steps: number[];
  parts_ms: Record<string, number>;
}

export interface SuitePage {
  hardware: string[];
  operators: RooflineRow[];
  flop: Record<string, number>;
  median_s_pct: Record<string, number>;
  roofs: Roofs[];
  measured: Measured[];
}

export interface Summary {
  verdict: Verdict;
  path: string;
  format: string;
  devices: string[];
  framework: string | null;
  rank: number | null;
  world_size: number | null;
  stage: string | null;
  events: number;
  kernels: number;
  gpu_span_ms: number | null;
  gpu_busy_ms: number | null;
  gpu_busy_pct: number | null;
  gpu_idle_pct: number | null;
  kernel_time_ms: number | null;
  compute_ms: number | null;
  comm_ms: number | null;
  exposed_comm_ms: number | null;
  exposed_comm_pct: number | null;
  memcpy_ms: number | null;
  exposed_memcpy_ms: number | null;
  coverage: CoverageSummary;
  execution: Execution;
  categories: CategoryTime[];
  steps: StepSummary;
  idle: IdleCause[];
  top_kernels: KernelRow[];
  per_device: DeviceSummary[];
  metrics: string[];
  warnings: ProfileWarning[];
}

export interface TailQuantile {
  quantile: number;
  normal_ms: number;
  abnormal_ms: number;
  p: number | null;
  state: "changed" | "not_tested" | "unclear";
}

export interface TimeNode {
  name: string;
  kind: string;
  category: string | null;
  time_ns: number;
  calls: number;
  children: TimeNode[];
}

export interface Timeline {
  span_ms: number;
  steps: TimelineStep[];
  left_out: number;
}

export interface TimelineStep {
  step: number;
  name: string;
  phase: string | null;
  start_ms: number;
  time_ms: number;
  busy_ms: number;
  requests: number | null;
  tokens: number | null;
  cut: boolean;
}

export interface ToDo {
  advice: string;
  rows: number[];
  recoverable_us: number;
  recoverable_pct_of_step: number;
  saves: string;
}

export interface Trend {
  what: string;
  by: "date" | "version";
  metric: "call" | "share" | "step";
  unit: string;
  phase: string | null;
  points: TrendPoint[];
  changes: TrendChange[];
  min_change_pct: number;
  regressed: boolean;
  left_out: number;
}

export interface TrendChange {
  at: number;
  label: string;
  file: string;
  before: number;
  after: number;
  change_pct: number | null;
  p_value: number;
  diagnose: string;
}

export interface TrendPoint {
  id: string;
  file: string;
  label: string;
  value: number;
}

export interface TwoSamplesComparison {
  n: number[];
  normal: number | null;
  abnormal: number | null;
  ratio: number | null;
  mean_ratio: number | null;
  low: number | null;
  high: number | null;
  cliff: number | null;
  p_mann_whitney: number | null;
  p_welch: number | null;
  p_equivalent: number | null;
}

export interface Unranked {
  cost_pct: number;
  pct_of_step: number;
  place: number;
  why: string;
}

export interface Uploaded {
  id: string;
  label: string;
  path: string;
  bytes: number | null;
  card: ProfileCard | null;
  stored: boolean;
}

export interface Verdict {
  kind: "alloc" | "exposed_comm" | "exposed_copies" | "gpu_bound" | "graph_gaps" | "host_bound" | "launch_bound" | "launch_latency" | "mixed_idle" | "no_gpu_work" | "no_timeline" | "nothing_stands_out" | "sync" | "unexplained_idle";
  sentence: string;
  figures: Figure[];
  next: string | null;
  busy_pct: number | null;
  phase: string | null;
  steps: number;
  basis: StepBasis | null;
}

export interface Waiting {
  name: string;
  wait_ms: number;
  pct: number | null;
}

export interface WaitingStack {
  stack: string[];
  wait_ms: number;
  pct: number | null;
}

export interface Working {
  id: string;
  stage: string;
  seconds: number;
}

/** A page of a report. */
export type Page = ProfilePage | ComparisonPage | RanksPage | DiagnosisPage | SinglePage | BenchPage;

/** What a report carries. */
export interface ReportData {
  solscope: string;
  pages: Page[];
}
