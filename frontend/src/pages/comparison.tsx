// Several profiles side by side.
import { useMemo } from "preact/hooks";
import { Link } from "../address";
import { Waterfall } from "../charts/waterfall";
import { ms, NONE, number, percent, shorten, times } from "../format";
import { Begin, Breaking, Dot, Section } from "../parts";
import { everyPhase, stepsCounted } from "../steps";
import { Table, type Column } from "../table";
import { timeFormat, timeIn } from "../units";
import type { ComparisonPage, Difference, Group, KernelChange, KernelUse, LayerTable, Part, PhaseComparison, PhaseKernels } from "../types";

export function ComparisonView({ page, diagnose = null }: { page: ComparisonPage; /** Where the dashboard says why they differ. */ diagnose?: string | null }) {
  const { comparison } = page;
  const labels = comparison.profiles.map((side) => side.label);
  return (
    <>
      <Begin headline={page.headline} severity={page.headline.severity} warnings={comparison.warnings} todo={diagnose && page.headline.advice ? <p class="do"><strong><Link to={diagnose}>See why they differ</Link>: the diagnosis.</strong></p> : null} />
      <Section id="sides" title="Profiles">
        <Table caption="Profiles" rows={comparison.profiles.map((side, at) => ({ ...side, summary: page.summaries[at] }))} columns={[
          { id: "label", title: "Profile", text: true, value: (row) => row.label },
          { id: "gpu", spare: 2, title: "GPU", text: true, value: (row) => row.devices.join(", ") || NONE },
          { id: "steps", title: "Steps", value: (row) => row.steps, show: (row) => `${row.steps}${row.cut ? ` (${row.cut} cut)` : ""}` },
          { id: "span", spare: 4, title: "Span", value: (row) => row.summary?.gpu_span_ms, time: "ms" },
          { id: "busy", spare: 3, title: "GPU busy", value: (row) => row.summary?.gpu_busy_pct, show: (row) => percent(row.summary?.gpu_busy_pct) },
          { id: "compute", spare: 5, title: "Computing", value: (row) => row.summary?.compute_ms, time: "ms" },
          { id: "comm", spare: 6, title: "Exposed communication", value: (row) => row.summary?.exposed_comm_ms, time: "ms", show: (row, text) => (row.summary?.comm_ms === 0 ? "none" : text) },
          { id: "compared", spare: 1, title: "GPU time compared", value: (row) => row.compared_pct, show: (row) => percent(row.compared_pct) },
        ]} />
        {comparison.left_out.length > 0 && <p class="about">Not compared: {comparison.left_out.join(", ")}.</p>}
      </Section>
      {comparison.phases.map((phase, at) => <Phase key={at} phase={phase} labels={labels} />)}
      {page.kernels?.phases.map((phase, at) => <Kernels key={at} phase={phase} labels={labels} />)}
      {page.layers ? <Layers table={page.layers} /> : <Section id="layers" title="Layers" about={page.no_layers}>{null}</Section>}
    </>
  );
}

function Phase({ phase, labels }: { phase: PhaseComparison; labels: string[] }) {
  const name = phase.phase ?? (phase.per === "step" ? "Steps" : "Whole profiles");
  const id = `phase-${phase.phase ?? phase.per}`;
  const total = (at: number) => phase.steps[at]?.time_ms ?? phase.gpu_ms[at] ?? 0;
  const step = phase.per === "step" ? total(0) : null;
  return (
    <Section id={id} title={`${name[0]?.toUpperCase()}${name.slice(1)}: ${labels.map((label, at) => `${label} ${ms(total(at)).replace(" ", "\u00a0")}`).join(" · ")}`} about={phase.per === "step" ? `Per step of this phase and per GPU: ${labels.map((label, at) => `${label} over ${phase.steps[at] ? stepsCounted(phase.steps[at].basis, false) : "no steps"}`).join("; ")}. The others are compared with the first profile.` : "Totals of whole profiles, whose work may differ: read shares, not speed."}>
      {labels.slice(1).map((label, index) => {
        const differences = phase.differences.filter((one) => one.profile === label);
        if (phase.per !== "step" || !differences.length) return null;
        return <Waterfall key={label} before={total(0)} after={total(index + 1)} beforeName={labels[0] ?? ""} afterName={label} parts={differences.map((one) => ({ name: partName(one), delta_ms: one.diff_ms }))} />;
      })}
      <Parts caption={`${name} by category`} parts={phase.categories} labels={labels} step={step} dots />
      <details>
        <summary>By catalog operator</summary>
        <Parts caption={`${name} by operator`} parts={phase.operators} labels={labels} step={step} />
      </details>
      {phase.kernels.length > 0 && <Parts caption={`${name} by kernel`} parts={phase.kernels} labels={labels} step={step} />}
    </Section>
  );
}

const RELATION: Record<string, string> = { same: "same kernel", replaced: "replaced", split: "split", fused: "fused", changed: "changed", new: "only after", gone: "only before" };

const namesOf = (uses: KernelUse[]): string => uses.map((use) => use.name).join(" + ");

function kernelColumns(labels: string[]): Column<KernelChange>[] {
  return [
    { id: "kernel", title: "Kernel", text: true, long: true, value: (row) => namesOf(row.before) || namesOf(row.after), show: (row) => <span class="opener"><Dot category={row.category} /><span><Breaking text={shorten(namesOf(row.before) || namesOf(row.after), 60)} />{row.relation !== "same" && row.before.length > 0 && row.after.length > 0 && <span class="faint block">→ <Breaking text={shorten(namesOf(row.after), 60)} /></span>}</span></span> },
    { id: "role", spare: 5, title: "Role", text: true, tight: true, value: (row) => row.role ?? NONE },
    { id: "relation", spare: 4, title: "Match", text: true, tight: true, value: (row) => RELATION[row.relation] ?? row.relation },
    { id: "before", spare: 2, title: labels[0] ?? "before", value: (row) => row.before_ms, time: "ms" },
    { id: "after", spare: 1, title: labels[1] ?? "after", value: (row) => row.after_ms, time: "ms" },
    { id: "diff", title: "Difference", value: (row) => row.diff_ms, time: "ms", signed: true, show: (row, text) => <span class={row.differs ? (row.diff_ms > 0 ? "worse" : "better") : ""}>{text}</span> },
    { id: "interval", spare: 3, title: "95 % interval", value: (row) => row.low_ms, time: "ms", signed: true, show: (row, text, write) => (row.low_ms === null || row.high_ms === null ? "too few steps" : `${text} to ${write(row.high_ms)}`) },
  ];
}

/** What got slower, kernel by kernel. */
function Kernels({ phase, labels }: { phase: PhaseKernels; labels: string[] }) {
  const columns = useMemo(() => kernelColumns(labels), [labels]);
  const name = phase.phase ?? (phase.per === "step" ? "step" : "whole profile");
  return (
    <Section id={`kernels-${phase.phase ?? phase.per}`} title={`Kernel by kernel: ${name}`} about={<>Kernels that do the same work, also where they were renamed, fused or split; {phase.per === "step" ? "per step and GPU" : "totals of whole profiles, whose work may differ"}. {percent(phase.matched_pct[0])} and {percent(phase.matched_pct[1])} of the GPU time is in rows that both have. Colored where 0 is outside the interval.</>}>
      <Table caption={`Kernels of ${name}`} columns={columns} rows={phase.rows} most={20} search={(row) => `${namesOf(row.before)} ${namesOf(row.after)} ${row.role ?? ""} ${row.category} ${row.relation}`} />
    </Section>
  );
}

const partName = (one: Difference): string => [one.group, one.name].filter(Boolean).join(" / ");

/** Share of a step below which a difference is not colored: without a test it may well be noise. */
const COLORED = 0.01;

interface PartsProps { caption: string; parts: Part[]; labels: string[]; dots?: boolean; /** Time of a step; null where the work may differ, so that no difference is good or bad. */ step: number | null }

function Parts({ caption, parts, labels, dots, step }: PartsProps) {
  const columns = useMemo<Column<Part>[]>(() => [
    { id: "name", title: "Part", text: true, tight: dots, long: !dots, value: (row) => row.name, show: (row) => <>{dots && <Dot category={row.name} />}<Breaking text={shorten(row.name, 50)} /></> },
    ...labels.map((label, at): Column<Part> => ({ id: `time-${at}`, spare: at + 1, title: label, value: (row) => row.time_ms[at], time: "ms" })),
    ...labels.slice(1).map((label, index): Column<Part> => ({ id: `diff-${index}`, title: labels.length === 2 ? "Difference" : `Δ ${label}`, help: `${label} minus ${labels[0]}`, value: (row) => change(row, index + 1), time: "ms", signed: true, show: (row, text) => <Change value={change(row, index + 1)} text={text} colored={step !== null && Math.abs(change(row, index + 1)) >= COLORED * step} /> })),
  ], [parts, labels, dots, step]);
  return <Table caption={caption} columns={columns} rows={parts} most={20} sort={{ id: "time-0", down: true }} search={(row) => row.name} />;
}

const change = (row: Part, at: number): number => (row.time_ms[at] ?? 0) - (row.time_ms[0] ?? 0);

const Change = ({ value, text, colored }: { value: number; text: string; colored: boolean }) => <span class={!colored ? "" : value > 0 ? "worse" : "better"}>{text}</span>;

function Layers({ table }: { table: LayerTable }) {
  // One unit for all figures, so that roles can be compared with layers and passes.
  const format = timeFormat(table.layer_kinds.flatMap((kind) => kind.groups.flatMap((group) => group.rows.flatMap((row) => row.time_us.map((value) => value && 1e3 * value)))));
  const time = (value: number | null | undefined): string => (value == null ? NONE : timeIn(1e3 * value, format));
  const sums: [string, number[]][] = [
    ["Layers", table.layers_us], ["Not attributed", table.unattributed_us], ["Idle", table.idle_us], ["Overlapped", table.overlapped_us], ["End to end", table.end_to_end_us],
  ];
  return (
    <Section id="layers" title="One layer, role by role" about={<>{table.phase ?? "All"} passes ({table.passes.map((count) => number(count)).join(" and ")}), {table.stat} per {table.per}, in {format.unit}, over {[...new Set(table.basis.map(everyPhase))].join(" and ")}. Profiles are aligned by group and role, never by kernel name. Rows add up to groups, and groups to a layer.</>}>
      {table.layer_kinds.map((kind) => (
        <div class="scroll" key={kind.kind} tabIndex={0} role="region" aria-label={`Layer ${kind.kind}`}>
          <table class="layers">
            <caption>{kind.kind} ({kind.layers.map((count) => `${count} layers`).join(" / ")})</caption>
            <thead><tr><th scope="col" class="text">Role</th>{table.profiles.map((name, at) => <th key={at} scope="col" class={`number side-${at % 4}`}><Breaking text={name} /></th>)}<th scope="col" class="number">Ratio</th><th scope="col" class="text spare">Kernels</th></tr></thead>
            {kind.groups.map((group) => <Group key={group.group} group={group} time={time} />)}
            <tbody><SumRow name="One layer" values={kind.sum_us} time={time} strong /></tbody>
          </table>
        </div>
      ))}
      <div class="scroll">
        <table class="layers">
          <caption>A whole pass</caption>
          <thead><tr><th scope="col" class="text">Part</th>{table.profiles.map((name, at) => <th key={at} scope="col" class={`number side-${at % 4}`}><Breaking text={name} /></th>)}<th scope="col" class="number">Ratio</th><td class="spare" /></tr></thead>
          <tbody>
            {table.outside.map((group) => <SumRow key={group.group} name={group.group} values={group.sum_us} time={time} />)}
            {sums.map(([name, values]) => <SumRow key={name} name={name} values={values} time={time} strong={name === "End to end"} />)}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

type Write = (value: number | null | undefined) => string;

function Group({ group, time }: { group: Group; time: Write }) {
  return (
    <tbody>
      {group.rows.map((row, at) => (
        <tr key={at}>
          <th scope="row" class="text"><Breaking text={row.role} /></th>
          {row.time_us.map((value, side) => <td key={side} class="number">{time(value)}</td>)}
          <td class="number">{ratio(row.time_us)}</td>
          <td class="text spare kernels">{row.kernels.map((names, side) => names.length > 0 && <div key={side} class={`side-${side % 4}`} title={names.join(", ")}><Breaking text={shorten(names.join(", "), 90)} /></div>)}</td>
        </tr>
      ))}
      <SumRow name={`${group.group}, sum`} values={group.sum_us} time={time} />
    </tbody>
  );
}

function SumRow({ name, values, time, strong }: { name: string; values: (number | null)[]; time: Write; strong?: boolean }) {
  return (
    <tr class={strong ? "sum strong" : "sum"}>
      <th scope="row" class="text"><Breaking text={name} /></th>
      {values.map((value, at) => <td key={at} class="number">{time(value)}</td>)}
      <td class="number">{ratio(values)}</td>
      <td class="spare" />
    </tr>
  );
}

function ratio(values: (number | null | undefined)[]): string {
  const [first, second] = values;
  return first && second ? times(second / first) : NONE;
}
