// Parts of a profile's page: how close to the hardware its steps are, the host side, and the memory.
import { ask } from "../ask";
import { QueueDepth } from "../charts/queue";
import { categoryColor, IDLE } from "../colors";
import { bytes, counted, ms, NONE, number, percent, us } from "../format";
import { Bar, Breaking, Dot, Facts, Section } from "../parts";
import { everyPhase } from "../steps";
import { Table, type Column } from "../table";
import type { Allocating, EfficiencyTable, HostTable, MemoryTable, OperatorSlack, PathPart, ProfileDetails, Rates, Waiting } from "../types";

const barred = (share: number | null | undefined) => (share == null ? NONE : <span class="with-bar">{percent(share)}<Bar share={share} /></span>);

const RATES: Column<Rates>[] = [
  { id: "name", title: "Phase", text: true, value: (row) => row.name },
  { id: "count", spare: 6, title: "Steps", value: (row) => row.count },
  { id: "time", title: "Step", help: "To the start of the next one", value: (row) => row.time_ms, time: "ms" },
  { id: "mfu", title: "MFU", help: "Time that the matrix units need at their peak, of the step", value: (row) => row.mfu_pct, show: (row) => barred(row.mfu_pct) },
  { id: "mbu", title: "MBU", help: "Time that weights, caches and states need at the bandwidth of HBM, of the step", value: (row) => row.mbu_pct, show: (row) => barred(row.mbu_pct) },
  { id: "sol", spare: 3, title: "Speed of light", help: "Sum of the bounds of all calls: the step at best", value: (row) => row.sol_ms, time: "ms" },
  { id: "solpct", spare: 2, title: "Of step", help: "Speed of light, of the step", value: (row) => row.sol_pct, show: (row) => barred(row.sol_pct) },
  { id: "overlap", spare: 5, title: "With overlap", help: "The bound if all calls overlapped perfectly", value: (row) => row.overlap_sol_ms, time: "ms" },
  { id: "tokens", spare: 4, title: "Tokens/s", help: "Per GPU", value: (row) => row.tokens_per_s, show: (row) => number(row.tokens_per_s) },
  { id: "cost", spare: 1, title: "Costed", help: "Share of the GPU time whose FLOP and bytes are known; below half of it there are no rates", value: (row) => row.cost_pct, show: (row) => percent(row.cost_pct) },
];

export function Efficiency({ table }: { table: EfficiencyTable }) {
  const unknown = table.rows.every((row) => row.mfu_pct === null);
  return (
    <Section id="efficiency" title="How much of the hardware is used" about={<>On {table.hardware}, over {everyPhase(table.basis)}. Rates are lower bounds: time without a known cost counts as time, and not as work.{unknown && " FLOP and bytes are known for less than half of the GPU time, so there are no rates; for recordings without shapes, give the model's config with --model."}</>}>
      <Table caption="Efficiency by phase" columns={RATES} rows={table.rows} />
    </Section>
  );
}

/** Details came with a report; the dashboard asks for them. */
export function Details({ given, address }: { given: ProfileDetails | null; address: string | null }) {
  const asked = ask<ProfileDetails>(given || address === null ? null : `${address}/details`);
  const found = given ?? asked.value;
  if (!found) return null;
  return <>{found.host && <Host table={found.host} />}{found.memory.map((table) => <Memory key={table.device} table={table} many={found.memory.length > 1} />)}</>;
}

const waiting = (title: string): Column<Waiting>[] => [
  { id: "name", title, text: true, long: true, value: (row) => row.name },
  { id: "wait", title: "GPU waited", value: (row) => row.wait_ms, time: "ms" },
  { id: "pct", title: "Of waiting", value: (row) => row.pct, show: (row) => barred(row.pct) },
];

const PATH: Column<PathPart>[] = [
  { id: "category", title: "Category", text: true, value: (row) => row.category, show: (row) => <><Dot category={row.category} /><Breaking text={row.category} /></> },
  { id: "time", spare: 1, title: "GPU time", value: (row) => row.time_ms, time: "ms" },
  { id: "path", title: "On the path", help: "What the span would lose at most if this took no time", value: (row) => row.on_path_ms, time: "ms" },
  { id: "idle", spare: 2, title: "Idle after", value: (row) => row.idle_after_ms, time: "ms" },
];

const SLACK: Column<OperatorSlack>[] = [
  { id: "operator", title: "Operator", text: true, long: true, value: (row) => row.operator },
  { id: "time", spare: 2, title: "GPU time", value: (row) => row.time_ms, time: "ms" },
  { id: "path", title: "On the path", value: (row) => row.on_path_ms, time: "ms" },
  { id: "least", spare: 1, title: "Least slack", value: (row) => row.least_slack_us, time: "us" },
  { id: "median", title: "Median slack", value: (row) => row.median_slack_us, time: "us" },
  { id: "count", spare: 3, title: "Activities", value: (row) => row.activities, show: (row) => number(row.activities) },
];

function Host({ table }: { table: HostTable }) {
  const path: [string, number, string][] = [
    ["GPU", table.path_gpu_ms, categoryColor("gemm")], ["host", table.path_host_ms, IDLE["host"] as string],
    ["launch latency", table.path_launch_ms, IDLE["launch"] as string], ["return of waiting calls", table.path_sync_ms, IDLE["sync"] as string],
  ];
  return (
    <Section id="host" title="The host" about={`What the host did while the GPU waited for it, and which of both each part of the span waited for. The parts of the critical path add up to the span.${table.basis.length ? ` Means per step are over ${everyPhase(table.basis)}.` : ""}`}>
      <Facts facts={[
        ["GPU waits for the host", `${ms(table.waiting_ms)}, ${percent(table.waiting_pct)}`],
        ["Between steps", table.between_steps_ms === null ? NONE : `${ms(table.between_steps_ms)} in the mean`],
        ["Launches", `${number(table.launches)}${table.launches_per_s ? `, ${number(table.launches_per_s)} per second` : ""}`],
        ["A launch call", us(table.launch_us)],
        ["Faster launches save", table.faster_ms === null ? NONE : `at most ${ms(table.faster_ms)} at ${us(table.faster_launches_us)} each`],
        ["Queue", table.queue_mean === null ? NONE : `${number(table.queue_mean)} activities, empty ${percent(table.queue_empty_pct)}`],
      ]} />
      {table.queue.length > 0 && <><h3>Queue over time</h3><p class="about">Activities that were launched and not yet finished. Where there are none, the GPU waits for the host.</p><QueueDepth parts={table.queue} span={table.span_ms} /></>}
      <h3>Critical path</h3>
      <span class="bar stack tall-bar" role="img" aria-label={path.map(([name, value]) => `${name} ${ms(value)}`).join(", ")}>{path.map(([name, value, color]) => <span key={name} title={`${name}: ${ms(value)}`} style={{ width: `${(100 * value) / (table.span_ms || 1)}%`, background: color }} />)}</span>
      <p class="legend small">{path.map(([name, value, color]) => <span key={name}><span class="dot" style={{ background: color }} />{name} {ms(value)}, {percent((100 * value) / (table.span_ms || 1))}</span>)}</p>
      <Table caption="Critical path by category" columns={PATH} rows={table.path} most={12} sort={{ id: "path", down: true }} />
      {table.path_operators.length > 0 && <details><summary>Slack, by operator</summary><p class="about">How much later an activity could end without delaying the end of the recording. What has little is on or near the path.</p><Table caption="Slack by operator" columns={SLACK} rows={table.path_operators} most={12} sort={{ id: "path", down: true }} search={(row) => row.operator} /></details>}
      {([["Section", table.sections], ["Operator", table.operators], ["Python frame", table.frames]] as const).map(([title, rows]) => rows.length > 0 && (
        <details key={title}><summary>GPU waited, by {title.toLowerCase()}</summary><Table caption={`Waiting by ${title.toLowerCase()}`} columns={waiting(title)} rows={rows} most={12} sort={{ id: "wait", down: true }} search={(row) => row.name} /></details>
      ))}
    </Section>
  );
}

const ALLOCATING: Column<Allocating>[] = [
  { id: "op", title: "Operator", text: true, long: true, value: (row) => row.op },
  { id: "calls", spare: 1, title: "Allocations", value: (row) => row.calls, show: (row) => number(row.calls) },
  { id: "bytes", title: "Memory", value: (row) => row.bytes, bytes: true },
  { id: "pct", title: "Share", value: (row) => row.pct, show: (row) => barred(row.pct) },
];

function Memory({ table, many }: { table: MemoryTable; many: boolean }) {
  return (
    <Section id={many ? `memory-${table.device}` : "memory"} title={`GPU memory${many ? `: GPU ${table.device}` : ""}`} about={<>{counted(table.events, "event")} of the caching allocator. Fragmentation is what is reserved and holds no tensor at the peak.</>}>
      <Facts facts={[
        ["Peak", `${bytes(table.peak_bytes)} in ${table.peak_op}`],
        ["Reserved then", bytes(table.reserved_bytes)],
        ["Fragmentation", percent(table.fragmentation_pct)],
        ["At the start and end", `${bytes(table.first_bytes)}, ${bytes(table.last_bytes)}`],
        ["Per step", table.allocations_per_step === null ? NONE : `${number(table.allocations_per_step)} allocations, ${bytes(table.allocated_per_step)}`],
        ["Growth per step", table.growth_per_step === null ? NONE : bytes(table.growth_per_step)],
      ]} />
      <Table caption={`Allocations by operator${many ? `, GPU ${table.device}` : ""}`} columns={ALLOCATING} rows={table.operators} most={12} sort={{ id: "bytes", down: true }} search={(row) => row.op} />
    </Section>
  );
}
