// One profile.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "../ask";
import { HeatStrip } from "../charts/heat";
import { Icicle } from "../charts/icicle";
import { Roofline } from "../charts/roofline";
import { drawnSteps, StepTimeline } from "../charts/timeline";
import { TimeTree } from "../charts/tree";
import { categoryColor, causeColor } from "../colors";
import { axesText, bytes, counted, ms, NONE, number, percent, rate, shorten, time, unbroken } from "../format";
import { Bar, Begin, Breaking, CoverageTable, Dot, Facts, Later, Name, Problem, Section, Sentence, Warnings, Word } from "../parts";
import { reread, toggle, useSelection } from "../selection";
import { everyPhase, meanStep } from "../steps";
import { Table, type Column } from "../table";
import { timeFormat, inUnit } from "../units";
import { useRange, type InRange } from "../timeline/range";
import { aboutTimeline, TimeLine } from "../timeline/view";
import { Details, Efficiency } from "./details";
import type { CategoryTime, DeviceSummary, EventTimeline, Hotspot, KernelRow, OperatorRow, PhaseSteps, ProfilePage, RangeSums } from "../types";

/** `address` is where the dashboard asks for more of this profile; null in a report. */
export function ProfileView({ page, address = null, whatIf = null }: { page: ProfilePage; address?: string | null; /** Another GPU whose bounds are shown. */ whatIf?: string | null }) {
  const { summary } = page;
  const asked = ask<EventTimeline>(address && page.operators ? `${address}/timeline` : null);
  const events = page.events ?? asked.value;
  const selection = useSelection();
  useEffect(reread, []);
  const range = useRange(events, address, selection.range);
  return (
    <>
      {whatIf && <p class="warnings plain" role="note">What if it ran on {whatIf}? Bounds, S and what can be saved are those of {whatIf}; times are as recorded on {summary.devices.join(", ") || "another GPU"}. S may exceed 100 %.</p>}
      {page.model && <p class="about" role="note">FLOP and bytes of kernels without recorded shapes are from the config {page.model.name}.</p>}
      {page.model && page.model.warnings.length > 0 && <Warnings warnings={page.model.warnings} />}
      <Begin headline={summary.verdict} severity={page.severity} warnings={summary.warnings.filter((one) => one.code === "stray_activity")} todo={page.hotspots && whatToDo(page, address === null)} />
      <Later>
      <Section id="summary" title="The whole recording" about={aboutRecording(page)}>
        <Facts
          facts={known([
            ["GPU", summary.devices.join(", ") || "not named"],
            ["Recorded by", [summary.format, summary.framework].filter(Boolean).join(", ")],
            ["Span", ofEach(page, (one) => one.gpu_span_ms)],
            ["GPU, of the span", summary.gpu_busy_pct !== null && (isStray(page) ? "says little: stray activity" : busyWith(page))],
            ["Kernels", number(summary.kernels)],
            ["Kernel time, summed", ofEach(page, (one) => one.kernel_time_ms)],
            ["Exposed communication", summary.exposed_comm_ms !== null && (summary.comm_ms ? `${ofEach(page, (one) => one.exposed_comm_ms)} of ${ofEach(page, (one) => one.comm_ms)}` : "none")],
            ["Exposed copies", summary.exposed_memcpy_ms !== null && (summary.memcpy_ms ? `${ofEach(page, (one) => one.exposed_memcpy_ms)} of ${ofEach(page, (one) => one.memcpy_ms)}` : "none")],
            ["Rank", summary.rank !== null && `${summary.rank}${summary.world_size ? ` of ${summary.world_size}` : ""}`],
          ])}
        />
        {page.operators === null && <p class="about">This profile is a summary: totals per kernel, without single calls. Steps, idle time, operators and bounds need a trace.</p>}
        {summary.categories.length > 0 && <Categories rows={events && range.sums ? categoriesIn(events, range.sums) : summary.categories} of={`${range.sums ? "the chosen range" : "the whole recording"}${summary.per_device.length > 1 ? `, summed over ${summary.per_device.length} GPUs` : ""}`} />}
        {summary.per_device.length > 1 && <><h3>Devices</h3><Table caption="Devices" columns={summary.per_device.some((one) => one.rank !== null) ? DEVICES : DEVICES.slice(1)} rows={summary.per_device} /></>}
      </Section>
      {page.efficiency && page.efficiency.rows.length > 0 && <Efficiency table={page.efficiency} />}
      <Later>
      {page.operators && (events ? events.lanes.length > 0 : address !== null) && (
        <Section id="timeline" title="Time line" about={events ? aboutTimeline(events, address === null) : undefined}>
          {events ? <TimeLine timeline={events} address={address} causes={page.idle_causes} /> : asked.error ? <Problem text={asked.error} /> : <p class="faint" role="status">Reading the events…</p>}
          {range.error && <Problem text={range.error} />}
        </Section>
      )}
      {page.timeline.steps.length > 0 && (
        <Section id="steps" title="Steps" about={aboutSteps(page)}>
          {page.timeline.steps.length > 1 && <StepTimeline steps={page.timeline.steps} span={page.timeline.span_ms} />}
          {page.timeline.left_out > 0 && <p class="about">{page.timeline.left_out} later steps are not drawn.</p>}
          <Table caption="Steps by phase" columns={PHASES} rows={summary.steps.phases} />
        </Section>
      )}
      <Section id="tree" title="Where the time goes" about={page.icicle ? "Phase, layer, role, kernel from top to bottom, and idle time by cause. Widths add up exactly; activities that overlap count each. Click to zoom in; use the path above the chart to go back." : "Category and kernel. Click to zoom in; use the path above the chart to go back. Areas add up exactly."}>
        <Tree page={page} />
      </Section>
      <Later>
      {summary.kernels > 0 && <Hotspots page={page} />}
      {summary.kernels > 0 && <Operators page={page} />}
      <Details given={page.details} address={page.operators ? address : null} />
      {summary.idle.length > 0 && <Idle page={page} events={events} range={range} />}
      {page.kernels.calls > 0 && <Kernels page={page} events={events} range={range} />}
      <Section id="coverage" title="Coverage and warnings" about="The share of GPU time for which each fact is known. Unknown values are shown as unknown, never guessed.">
        <Warnings warnings={summary.warnings} />
        <CoverageTable coverage={summary.coverage} more={page.operators ? [["given FLOP and bytes", page.operators.cost_pct]] : []} />
      </Section>
      </Later>
      </Later>
      </Later>
    </>
  );
}

/** Facts that are known. */
const known = (facts: [string, string | false | null | 0][]): [string, string][] => facts.filter((fact): fact is [string, string] => Boolean(fact[1]));

type Times = Pick<ProfilePage["summary"], "gpu_span_ms" | "kernel_time_ms" | "comm_ms" | "exposed_comm_ms" | "memcpy_ms" | "exposed_memcpy_ms">;

/** A time of the GPU; of several, the shortest and the longest: a sum stands beside no time of one. */
function ofEach({ summary }: ProfilePage, value: (one: Times) => number | null): string | null {
  const all = (summary.per_device.length > 1 ? summary.per_device : [summary]).map(value).filter((one) => one !== null);
  if (!all.length) return null;
  return [...new Set([Math.min(...all), Math.max(...all)].map(ms))].join(" to ");
}

/** What a GPU does in the span: parts that add up to it, but for those below 1 %. */
function busyWith({ summary }: ProfilePage): string {
  const share = (part: number | null): number => (100 * (part ?? 0)) / (summary.gpu_span_ms || 1);
  const alone: [string, number][] = [["only copying", share(summary.exposed_memcpy_ms)], ["only communicating", share(summary.exposed_comm_ms)]];
  const shown = alone.filter(([, size]) => size >= 1);
  const busy: [string, number][] = shown.length ? [["computing", share(summary.compute_ms)], ...shown] : [["busy", summary.gpu_busy_pct ?? 0]];
  return [...busy, ["idle", 100 - (summary.gpu_busy_pct ?? 0)] as [string, number]].map(([name, size]) => `${name} ${percent(size)}`).join(", ");
}

/** Whether a few activities far from all others make the span meaningless. */
const isStray = ({ summary }: ProfilePage): boolean => summary.warnings.some((one) => one.code === "stray_activity");

/** What the figures of the whole recording are not. */
function aboutRecording({ summary }: ProfilePage): string | null {
  const steps = summary.verdict.steps ? "All steps and phases together, from the first GPU activity to the last; the verdict is about a usual step." : "";
  const sums = summary.per_device.length > 1 ? `Times are of each of the ${summary.per_device.length} GPUs, as in the verdict; kernels and categories are summed over them.` : "";
  return [steps, sums].filter(Boolean).join(" ") || null;
}

function aboutSteps({ summary, timeline }: ProfilePage): string {
  const undrawn = drawnSteps(timeline.steps).length < timeline.steps.length ? ", and not drawn" : "";
  const cut = summary.steps.cut ? ` ${summary.steps.cut} of them ${summary.steps.cut === 1 ? "is" : "are"} cut at the edge of the recording${undrawn}.` : "";
  if (summary.steps.found_by === "whole_profile") return "No step markers found: the whole profile counts as one step.";
  const found = `Found by ${(summary.steps.found_by ?? "nothing").replaceAll("_", " ")}.${cut} Times per step are those of ${everyPhase(summary.steps.phases.map((one) => one.basis))}.`;
  return timeline.steps.length > 1 ? `Height is the step time; the solid part is the time the GPU was busy. ${found}` : `One step. ${found}`;
}

function Tree({ page }: { page: ProfilePage }) {
  const [areas, setAreas] = useState(false);
  if (!page.icicle) return <TimeTree tree={page.tree} depth={3} />;
  return (
    <>
      <div class="choice" role="group" aria-label="Kind of chart">
        <button type="button" aria-pressed={!areas} onClick={() => setAreas(false)}>Icicle</button>
        <button type="button" aria-pressed={areas} onClick={() => setAreas(true)}>Treemap</button>
      </div>
      {areas ? <TimeTree tree={page.tree} depth={3} /> : <Icicle tree={page.icicle} />}
      <HeatStrip tree={page.icicle} />
    </>
  );
}

/** GPU time by category in a range. */
function categoriesIn(events: EventTimeline, sums: RangeSums): CategoryTime[] {
  const found = new Map<string, { ns: number; calls: number }>();
  for (const row of sums.gpu) {
    const category = events.labels[row.label]?.category ?? "other";
    const sum = found.get(category) ?? { ns: 0, calls: 0 };
    found.set(category, { ns: sum.ns + row.total_ns, calls: sum.calls + row.calls });
  }
  const all = [...found.values()].reduce((sum, one) => sum + one.ns, 0);
  return [...found].map(([category, { ns, calls }]) => ({ category, calls, time_ms: ns / 1e6, pct: all ? (100 * ns) / all : 0 })).sort((a, b) => b.time_ms - a.time_ms);
}

function Categories({ rows, of }: { rows: CategoryTime[]; of: string }) {
  const format = timeFormat(rows.map((one) => 1e6 * one.time_ms));
  return (
    <div class="scroll">
      <table class="bars">
        <caption>GPU time by category, of {of}</caption>
        <tbody>
          {rows.map((one) => (
            <tr key={one.category}>
              <th scope="row" class="text"><Dot category={one.category} /><Word text={one.category} /></th>
              <td class="number">{inUnit(1e6 * one.time_ms, format)} {format.unit}</td>
              <td class="number">{percent(one.pct)}</td>
              <td class="number spare">{counted(one.calls, "call")}</td>
              <td class="wide"><Bar share={one.pct} color={categoryColor(one.category)} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const DEVICES: Column<DeviceSummary>[] = [
  { id: "rank", title: "Rank", value: (row) => row.rank },
  { id: "device", title: "GPU", text: true, value: (row) => row.device, show: (row) => <>{row.device ?? NONE} <span class="faint">{row.name}</span></> },
  { id: "kernels", spare: 2, title: "Kernels", value: (row) => row.kernels, show: (row) => number(row.kernels) },
  { id: "span", title: "Span", value: (row) => row.gpu_span_ms, time: "ms" },
  { id: "busy", title: "Busy", value: (row) => row.gpu_busy_pct, show: (row) => percent(row.gpu_busy_pct) },
  { id: "time", spare: 1, title: "Kernel time", value: (row) => row.kernel_time_ms, time: "ms" },
  { id: "comm", spare: 3, title: "Exposed communication", value: (row) => row.exposed_comm_ms, time: "ms", show: (row, text) => (row.comm_ms === 0 ? "none" : text) },
];

const PHASES: Column<PhaseSteps>[] = [
  { id: "phase", title: "Phase", text: true, value: (row) => row.phase ?? "not known" },
  { id: "count", title: "Steps", value: (row) => row.count },
  { id: "p50", title: "p50", value: (row) => row.p50_ms, time: "ms" },
  { id: "p90", spare: 4, title: "p90", value: (row) => row.p90_ms, time: "ms" },
  { id: "p99", spare: 2, title: "p99", value: (row) => row.p99_ms, time: "ms" },
  { id: "gap", spare: 6, title: "Gap p50", value: (row) => row.gap_p50_ms, time: "ms" },
  { id: "tokens", spare: 5, title: "Tokens", value: (row) => row.tokens, show: (row) => number(row.tokens) },
  { id: "tpot", spare: 3, title: "TPOT", help: "Mean time from the start of a decode step to the start of the next", value: (row) => row.tpot_ms, time: "ms" },
  { id: "rate", title: "Tokens/s", value: (row) => row.tokens_per_s, show: (row) => number(row.tokens_per_s) },
];

const nameOf = (row: Hotspot): string => `${row.kind === "operator" ? "" : `${row.kind}: `}${row.operator}`;

/** What to do first; null where there is nothing. */
function whatToDo(page: ProfilePage, inReport: boolean) {
  const { to_do: doing, unranked } = page;
  if (!doing.length && !unranked) return null;
  const items = doing.map((one) => <li key={one.rows[0]}><strong><Sentence text={one.advice} />.</strong> <span class="faint">{unbroken(one.saves)}</span></li>);
  if (unranked) items.splice(unranked.place, 0, <li key="model"><strong>Give the model's config {inReport ? <>(<code>--model config.json</code>)</> : "(above)"}.</strong> <span class="faint">{unbroken(unranked.why)}</span></li>);
  return (
    <div class="do">
      <h3>What to do</h3>
      <ol>{items}</ol>
    </div>
  );
}

const HOTSPOTS: Column<Hotspot>[] = [
  { id: "rank", title: "#", value: (row) => row.rank },
  { id: "what", title: "What", text: true, long: true, value: (row) => row.operator, show: (row) => <span title={axesText(row.axes)}><Breaking text={shorten(nameOf(row), 48)} />{row.role && row.role !== row.operator ? <span class="faint"> {row.role}</span> : null}{row.axes && <span class="faint small block axes">{shorten(axesText(row.axes), 60)}</span>}</span> },
  { id: "saves", title: "Saves per step", value: (row) => row.recoverable_us, time: "us" },
  { id: "share", spare: 2, title: "Of step", value: (row) => row.recoverable_pct_of_step, show: (row) => <span class="with-bar">{percent(row.recoverable_pct_of_step)}<Bar share={row.recoverable_pct_of_step} /></span> },
  { id: "time", spare: 4, title: "Time", value: (row) => row.time_us, time: "us" },
  { id: "bound", spare: 6, title: "Bound", value: (row) => row.bound_us, time: "us" },
  { id: "s", spare: 3, title: "S", help: "Bound / time", value: (row) => row.efficiency_pct, show: (row) => percent(row.efficiency_pct) },
  { id: "limit", spare: 7, title: "Limit", help: "What sets the bound", text: true, tight: true, value: (row) => row.limiter, show: (row) => <Word text={row.limiter} /> },
  { id: "sure", spare: 8, title: "Confidence", help: "That this time can be saved", text: true, tight: true, value: (row) => row.confidence },
];

function Hotspots({ page }: { page: ProfilePage }) {
  const selection = useSelection();
  const table = page.hotspots;
  if (!table) return null;
  return (
    <Section id="hotspots" title="What to fix first" about={<>Per {meanStep(table.basis)}; {table.hardware ? `an operator should reach ${table.target_pct} % of its bound on ${table.hardware}` : `no bounds: ${table.no_hardware ?? "the GPU is not known"}`}. FLOP and bytes are known for {percent(table.coverage.cost_pct)} of the GPU time of {table.basis.steps ? "these steps" : "the recording"}.</>}>
      {table.hotspots.length ? <Table caption="Hotspots" columns={HOTSPOTS} rows={table.hotspots} most={12} sort={{ id: "saves", down: true }} search={(row) => `${row.operator} ${row.role ?? ""} ${row.kind}`} choice={{ on: (row) => row.role !== null && row.role === selection.role, pick: (row) => row.role !== null && toggle({ role: row.role }) }} detail={(row) => <><p><strong><Sentence text={row.advice} />.</strong></p><p>{row.why}</p>{row.axes && <p class="faint">{axesText(row.axes)}</p>}</>} /> : <p class="about">Nothing to save was found.</p>}
    </Section>
  );
}

const OPERATORS: Column<OperatorRow>[] = [
  { id: "op", title: "Operator", text: true, long: true, value: (row) => row.op, show: (row) => <span class="opener" title={row.op}><Dot category={row.category} /><span><Breaking text={shorten(row.op, 34)} /></span></span> },
  { id: "axes", spare: 5, title: "Axes", text: true, long: true, value: (row) => axesText(row.axes), show: (row) => <span class="axes">{shorten(axesText(row.axes), 90)}</span> },
  { id: "calls", spare: 6, title: "Calls", value: (row) => row.calls, show: (row) => number(row.calls) },
  { id: "pct", title: "GPU time", value: (row) => row.pct, show: (row) => percent(row.pct) },
  { id: "time", spare: 3, title: "Per call", value: (row) => row.time_us, time: "us" },
  { id: "tflops", spare: 8, title: "TFLOP/s", value: (row) => row.tflops, show: (row) => rate(row.tflops) },
  { id: "tbps", spare: 9, title: "TB/s", value: (row) => row.tbps, show: (row) => rate(row.tbps) },
  { id: "bound", spare: 4, title: "Bound", value: (row) => row.bound_us, time: "us" },
  { id: "limit", spare: 7, title: "Limit", help: "What sets the bound", text: true, tight: true, value: (row) => row.limiter, show: (row) => <Word text={row.limiter} /> },
  { id: "s", title: "S", help: "Bound / time", value: (row) => row.efficiency_pct, show: (row) => percent(row.efficiency_pct) },
];

function Operators({ page }: { page: ProfilePage }) {
  const selection = useSelection();
  const table = page.operators;
  if (!table) return null;
  return (
    <Section id="operators" title="Roofline" about={<>Every operator and shape of the whole recording with a cost, as a point{page.roofs && ` under the roofs of ${page.roofs.title}${page.roofs.measured ? " (measured)" : ""}`}. The area of a point is its share of the GPU time; click one to follow the operator in all views.{!page.roofs && ` No roofs and no bounds: ${page.hotspots?.no_hardware ?? "the GPU is not known; name it with --hardware"}.`} Cost is known for {percent(table.cost_pct)} of the GPU time of the whole recording.</>}>
      <Roofline rows={table.operators} roofs={page.roofs} />
      {table.operators.length > 0 && <Table caption="Operators and shapes" columns={OPERATORS} rows={table.operators} most={20} sort={{ id: "pct", down: true }} search={(row) => `${row.op} ${row.operator} ${row.category} ${axesText(row.axes)}`} choice={{ on: (row) => row.op === selection.operator && (selection.shape === null || selection.shape === axesText(row.axes)), pick: (row) => toggle({ operator: row.op, shape: axesText(row.axes) }) }} detail={(row) => <p>{row.operator}: {axesText(row.axes)}; {number(row.flop)} FLOP and {bytes(row.bytes)} per call, {number(row.intensity)} FLOP per byte</p>} />}
      {table.no_cost.length > 0 && (
        <details>
          <summary>Without a cost: {percent(table.no_cost.reduce((sum, row) => sum + row.pct, 0))} of the GPU time</summary>
          <Table caption="Calls without a cost" rows={table.no_cost} columns={[
            { id: "op", title: "What", text: true, value: (row) => row.op, show: (row) => <Breaking text={shorten(row.op, 60)} /> },
            { id: "why", title: "Why", text: true, value: (row) => row.reason },
            { id: "calls", title: "Calls", value: (row) => row.calls, show: (row) => number(row.calls) },
            { id: "pct", title: "GPU time", value: (row) => row.pct, show: (row) => percent(row.pct) },
          ]} />
        </details>
      )}
    </Section>
  );
}

interface Ranged { page: ProfilePage; events: EventTimeline | null; range: InRange }

function Idle({ page, events, range }: Ranged) {
  const rows = events && range.sums ? range.sums.idle.map((one) => ({ cause: events.labels[one.label]?.name ?? "unlinked", time_ms: one.total_ns / 1e6, gaps: one.calls })) : page.summary.idle;
  const total = rows.reduce((sum, one) => sum + one.time_ms, 0);
  const format = timeFormat(rows.map((one) => 1e6 * one.time_ms));
  return (
    <Section id="idle" title="Why the GPU was idle" about={range.sums ? <>{ms(total)} of idle time in the chosen range; each gap counts for its main cause up to the launch, and as launch from then on.</> : <>{ms(total)} of idle time in the whole recording, between its first and its last kernel. The causes add up to it exactly.</>}>
      <div class="scroll">
        <table class="bars">
          <caption class="hidden">Idle time by cause</caption>
          <tbody>
            {rows.map((one) => (
              <tr key={one.cause}>
                <th scope="row" class="text"><span class="dot" aria-hidden="true" style={{ background: causeColor(one.cause) }} />{one.cause}<span class="faint block">{page.idle_causes[one.cause]}</span></th>
                <td class="number">{inUnit(1e6 * one.time_ms, format)} {format.unit}</td>
                <td class="number spare">{one.gaps ? counted(one.gaps, "gap") : "in gaps of other causes"}</td>
                <td class="wide"><Bar share={total ? (100 * one.time_ms) / total : 0} color={causeColor(one.cause)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

const KERNELS: Column<KernelRow>[] = [
  { id: "name", title: "Kernel", text: true, long: true, value: (row) => row.short_name, show: (row) => <span class="opener"><Dot category={row.category} /><span><Name short={shorten(row.short_name, 56)} full={row.name} /></span></span> },
  { id: "category", spare: 5, title: "Category", text: true, tight: true, value: (row) => row.category, show: (row) => <Word text={row.category} /> },
  { id: "calls", spare: 2, title: "Calls", value: (row) => row.calls, show: (row) => number(row.calls) },
  { id: "total", title: "Total", value: (row) => row.total_ns, time: "ns", unit: "total" },
  { id: "pct", title: "Share", value: (row) => row.pct, show: (row) => percent(row.pct) },
  { id: "mean", spare: 3, title: "Mean", value: (row) => row.mean_ns, time: "ns" },
  { id: "median", spare: 7, title: "Median", value: (row) => row.median_ns, time: "ns" },
  { id: "max", spare: 6, title: "Max", value: (row) => row.max_ns, time: "ns" },
];

/** The kernels of a range by name: events of one name and several roles are one row. */
function kernelsIn(events: EventTimeline, sums: RangeSums): KernelRow[] {
  const found = new Map<string, KernelRow>();
  const all = sums.gpu.reduce((sum, one) => sum + one.total_ns, 0);
  for (const row of sums.gpu) {
    const label = events.labels[row.label];
    const name = label?.full ?? label?.name ?? "";
    const sum: KernelRow = found.get(name) ?? { name, short_name: label?.name ?? "", category: label?.category ?? "other", calls: 0, total_ns: 0, pct: 0, mean_ns: 0, median_ns: null, min_ns: null, max_ns: 0, std_ns: null, detail: null, rule: null, helper_ns: 0, inferred: false, borrowed_ns: 0 };
    const [calls, total] = [sum.calls + row.calls, sum.total_ns + row.total_ns];
    found.set(name, { ...sum, calls, total_ns: total, pct: all ? (100 * total) / all : 0, mean_ns: total / calls, max_ns: Math.max(sum.max_ns ?? 0, row.max_ns) });
  }
  return [...found.values()];
}

function Kernels({ page, events, range }: Ranged) {
  const selection = useSelection();
  const rows = useMemo(() => (events && range.sums ? kernelsIn(events, range.sums) : page.kernels.kernels), [page, events, range.sums]);
  const about = range.sums ? <>{counted(rows.reduce((sum, row) => sum + row.calls, 0), "activity").replace("activitys", "activities")} of {rows.length} names in the chosen range of {time(range.sums.to_ns - range.sums.from_ns)}; an activity counts as far as it lies in it.</> : <>{number(page.kernels.calls)} activities of {rows.length + page.kernels_left_out} names, {time(page.kernels.total_ns)} together in the whole recording{page.kernels_left_out ? `; the ${page.kernels_left_out} smallest names are not in this file` : ""}. Open a name to read it whole.</>;
  return (
    <Section id="kernels" title={range.sums ? "Kernels in range" : "Kernels"} about={about}>
      <Table caption="Kernels" columns={KERNELS} rows={rows} most={25} sort={{ id: "total", down: true }} search={(row) => `${row.name} ${row.short_name} ${row.category}`} choice={{ on: (row) => row.short_name === selection.kernel, pick: (row) => toggle({ kernel: row.short_name }) }} />
    </Section>
  );
}
