// The ranks of one run: what each did with its time, and for which the others wait.
import { useMemo } from "preact/hooks";
import { categoryColor } from "../colors";
import { ExpertLoad, RankTimeline } from "../charts/ranks";
import { fileName, ms, number, percent } from "../format";
import { Bar, Begin, Breaking, Section } from "../parts";
import { Table, type Column } from "../table";
import type { CollectiveRow, Pipeline, RankRow, RankTimes, RanksPage, Stage, Summary } from "../types";

interface Row extends RankRow { summary: Summary | undefined; wait_ms: number | undefined }

const PARTS: [string, string, (summary: Summary) => number | null][] = [
  ["computing", categoryColor("gemm"), (one) => one.compute_ms],
  ["communication that nothing hides", categoryColor("comm"), (one) => one.exposed_comm_ms],
  ["copies that nothing hides", categoryColor("memcpy"), (one) => one.exposed_memcpy_ms],
];

export function RanksView({ page }: { page: RanksPage }) {
  const { run } = page;
  const rows = useMemo<Row[]>(() => run.ranks.map((row, at) => ({ ...row, summary: page.summaries[at], wait_ms: run.skew?.ranks.find((one) => one.rank === row.rank)?.wait_ms })), [page]);
  const columns = useMemo(() => [...COLUMNS.slice(0, 3), ...stepColumns(page.summaries), ...COLUMNS.slice(3)], [page]);
  return (
    <>
      <Begin headline={page.headline} severity={page.headline.severity} because={page.table.straggler.rank === null ? [] : page.table.straggler.evidence} warnings={page.table.warnings.filter((one) => one.code === "no_common_clock")} />
      {page.lanes && (
        <Section id="timeline" title="All ranks on one time line" about={<>Collectives of the ranks on their common clock{page.table.clock.error_us !== null && <> (within {number(page.table.clock.error_us)} µs, {CLOCKS[page.table.clock.method] ?? page.table.clock.method.replaceAll("_", " ")})</>}. Red is waiting for the rank that comes last; that rank itself does not wait. Drag to zoom in.</>}>
          <RankTimeline lanes={page.lanes} straggler={page.table.straggler.rank} />
        </Section>
      )}
      {page.table.pipeline && <Stages pipeline={page.table.pipeline} />}
      {page.table.imbalance.by_layer.length > 0 && (
        <Section id="load" title="Rows that reach the experts" about="Per step, layer by layer; the darker, the more.">
          <ExpertLoad layers={page.table.imbalance.by_layer} ranks={page.table.ranks.map((row) => row.rank)} />
        </Section>
      )}
      {page.table.collectives.length > 0 && (
        <Section id="collectives" title="Collectives" about="By kind, group and size of the message. Waiting ends when the last rank arrives; the transfer begins then.">
          <Table caption="Collectives" columns={COLLECTIVES} rows={page.table.collectives} most={20} />
        </Section>
      )}
      <Section id="ranks" title={`${number(run.ranks.length)} ranks${run.world_size ? ` of ${number(run.world_size)}` : ""}`} about={page.table.steps > 0 ? `Means over ${page.table.steps} steps that all ranks recorded whole, and below them whole recordings: the first collective of those holds the different starts of the ranks.` : "Each rank from a file of its own. Waiting is what a rank spends in collectives beyond the shortest of all ranks; clocks are not compared."}>
        {page.table.steps > 0 && <Table caption="Ranks per step" columns={TIMES} rows={page.table.ranks} most={64} />}
        {run.missing.length > 0 && <p class="warnings plain">No file for rank {run.missing.join(", ")}.</p>}
        <Table caption="Ranks" columns={columns} rows={rows} most={64} search={(row) => `${row.rank} ${row.path} ${row.device}`} />
      </Section>
      <Section id="time" title="What each rank did with its time" about="From its first to its last activity; the parts add up to the span, what is left is idle.">
        <p class="legend">{PARTS.map(([name, color]) => <span key={name}><span class="dot" aria-hidden="true" style={{ background: color }} />{name}</span>)}</p>
        <div class="scroll">
          <table class="bars">
            <caption class="hidden">Time of each rank by part</caption>
            <thead><tr><th scope="col" class="text">Rank</th><th scope="col" class="number">Span</th><th scope="col" class="number">Idle</th><th scope="col" class="text wide">Parts</th></tr></thead>
            <tbody>{rows.map((row) => row.summary && <Parts key={row.rank} rank={row.rank} summary={row.summary} most={Math.max(...rows.map((one) => one.gpu_span_ms ?? 0))} />)}</tbody>
          </table>
        </div>
      </Section>
      <Section id="warnings" title="Warnings">
        {page.summaries.some((one) => one.warnings.length) ? <ul class="warnings">{page.summaries.flatMap((one) => one.warnings.map((found, at) => <li key={`${one.path} ${at}`}>rank {one.rank}: <code>{found.code}</code> {found.message}</li>))}</ul> : <p class="about">No warning: nothing was found that makes these numbers unsafe.</p>}
      </Section>
    </>
  );
}

/** How the clocks of ranks were brought together. */
const CLOCKS: Record<string, string> = { collectives: "from the ends of collectives", recorded: "as recorded, which no message contradicts", messages: "between the limits that messages set" };

const STAGES: Column<Stage>[] = [
  { id: "stage", title: "Stage", value: (row) => row.stage },
  { id: "ranks", title: "Ranks", text: true, tight: true, value: (row) => row.ranks.join(", ") },
  { id: "compute", title: "Computing", value: (row) => row.compute_ms, time: "ms" },
  { id: "receive", title: "Receiving", help: "Waiting for the stage before to send", value: (row) => row.receive_ms, time: "ms" },
  { id: "send", spare: 2, title: "Sending", help: "Waiting for the stage behind to receive", value: (row) => row.send_ms, time: "ms" },
  { id: "host", spare: 3, title: "Waits for host", help: "Nothing runs and nothing is launched", value: (row) => row.host_ms, time: "ms" },
  { id: "other", spare: 4, title: "Other", help: "Waiting in other calls between stages", value: (row) => row.other_ms, time: "ms" },
  { id: "held", spare: 1, title: "Held", help: "Work was launched and did not run", value: (row) => row.held_ms, time: "ms" },
  { id: "bubble", title: "Bubble", help: "Waiting for other stages, of the step", value: (row) => row.bubble_pct, show: (row) => <span class="with-bar">{percent(row.bubble_pct)}<Bar share={row.bubble_pct} /></span> },
];

/** A pipeline: what each stage does with a step, and which one the others wait for. */
const Stages = ({ pipeline }: { pipeline: Pipeline }) => (
  <Section id="stages" title="Stages of the pipeline" about={<>Means per step and rank. {percent(pipeline.bubble_pct)} of the time of all stages are bubbles; stage {pipeline.occupied_longest} is occupied longest, so the others wait for it.</>}>
    <Table caption="Stages" columns={STAGES} rows={pipeline.stages} most={64} />
  </Section>
);

const TIMES: Column<RankTimes>[] = [
  { id: "rank", title: "Rank", text: true, tight: true, value: (row) => row.rank },
  { id: "step", title: "Step", help: "From the start of a step to the start of the next", value: (row) => row.step_ms, time: "ms" },
  { id: "compute", title: "Computing", value: (row) => row.compute_ms, time: "ms" },
  { id: "comm", spare: 3, title: "Communication", help: "Waiting included", value: (row) => row.comm_ms, time: "ms" },
  { id: "waits", title: "Waiting", help: "In collectives, for the rank that came last", value: (row) => row.wait_ms, time: "ms" },
  { id: "overlap", spare: 5, title: "Overlap", help: "Computing and communication at the same time", value: (row) => row.overlap_ms, time: "ms" },
  { id: "host", spare: 4, title: "Waits for host", help: "The GPU runs nothing and nothing is launched", value: (row) => row.host_ms, time: "ms" },
  { id: "held", spare: 4, title: "Held", help: "Work was launched and did not run, as when another process has the GPU", value: (row) => row.held_ms, time: "ms" },
  { id: "cost", title: "Costs others", help: "What its late arrivals cost the others", value: (row) => row.cost_ms, time: "ms" },
  { id: "tokens", spare: 6, title: "Tokens", value: (row) => row.received_tokens ?? row.tokens, show: (row) => number(row.received_tokens ?? row.tokens) },
];

const COLLECTIVES: Column<CollectiveRow>[] = [
  { id: "kind", title: "Collective", text: true, value: (row) => row.kind.replaceAll("_", " ") },
  { id: "bytes", title: "Message", value: (row) => row.bytes, bytes: true },
  { id: "ranks", spare: 5, title: "Ranks", value: (row) => row.ranks },
  { id: "calls", spare: 4, title: "Calls", value: (row) => row.calls },
  { id: "wait", title: "Waiting", help: "Mean over calls and ranks", value: (row) => row.wait_us, time: "us" },
  { id: "transfer", title: "Transfer", help: "Mean over calls and ranks", value: (row) => row.transfer_us, time: "us" },
  { id: "hidden", spare: 3, title: "Hidden", help: "Part of a call during which the rank computes: mean over calls and ranks", value: (row) => row.hidden_us, time: "us" },
  { id: "bus", spare: 2, title: "Bus GB/s", help: "By the transfer alone, as NCCL's tests count it", value: (row) => row.busbw_gbs, show: (row) => number(row.busbw_gbs) },
  { id: "bound", spare: 3, title: "Link GB/s", help: "What the links can do in one direction", value: (row) => row.bound_gbs, show: (row) => number(row.bound_gbs) },
  { id: "class", spare: 1, title: "Mostly", text: true, tight: true, value: (row) => row.class },
];

const COLUMNS: Column<Row>[] = [
  { id: "rank", title: "Rank", text: true, tight: true, value: (row) => row.rank },
  { id: "file", spare: 9, title: "File", text: true, value: (row) => row.path, show: (row) => <span title={row.path}><Breaking text={fileName(row.path)} /></span> },
  { id: "gpu", spare: 8, title: "GPU", text: true, value: (row) => row.device },
  { id: "kernels", spare: 7, title: "Kernels", value: (row) => row.kernels },
  { id: "span", spare: 4, title: "Span", value: (row) => row.gpu_span_ms, time: "ms" },
  { id: "busy", spare: 3, title: "GPU busy", value: (row) => row.gpu_busy_pct, show: (row) => percent(row.gpu_busy_pct) },
  { id: "compute", title: "Computing", value: (row) => row.compute_ms, time: "ms" },
  { id: "comm", spare: 6, title: "Communication", value: (row) => row.comm_ms, time: "ms", show: (row, text) => (row.comm_ms ? text : "none") },
  { id: "exposed", spare: 5, title: "Exposed", help: "Communication during which nothing else ran", value: (row) => row.exposed_comm_ms, time: "ms" },
  { id: "wait", title: "Waiting", help: "In collectives, beyond the shortest of all ranks", value: (row) => row.wait_ms, time: "ms" },
];

/** The middle step of each phase that any rank has. */
function stepColumns(summaries: Summary[]): Column<Row>[] {
  const phases = [...new Set(summaries.flatMap((one) => (one.steps.found_by === "whole_profile" ? [] : one.steps.phases.map((phase) => phase.phase))))];
  return phases.map((phase): Column<Row> => {
    const middle = (row: Row) => row.summary?.steps.phases.find((one) => one.phase === phase)?.p50_ms;
    return { id: `step-${phase}`, spare: 2, title: `${phase ?? "step"} p50`, help: `Middle time of ${phase ?? "all"} steps`, value: middle, time: "ms" };
  });
}

function Parts({ rank, summary, most }: { rank: number; summary: Summary; most: number }) {
  const share = (value: number | null) => (most ? (100 * (value ?? 0)) / most : 0);
  return (
    <tr>
      <th scope="row" class="text">{rank}</th>
      <td class="number">{ms(summary.gpu_span_ms)}</td>
      <td class="number">{percent(summary.gpu_idle_pct)}</td>
      <td class="wide">
        <span class="bar stack" role="img" aria-label={PARTS.map(([name, , value]) => `${name} ${ms(value(summary))}`).join(", ")} style={{ width: `${share(summary.gpu_span_ms)}%` }}>
          {PARTS.map(([name, color, value]) => <span key={name} title={`${name}: ${ms(value(summary))}`} style={{ width: `${summary.gpu_span_ms ? (100 * (value(summary) ?? 0)) / summary.gpu_span_ms : 0}%`, background: color }} />)}
        </span>
      </td>
    </tr>
  );
}
