// Several profiles side by side.
import { useMemo } from "preact/hooks";
import { Link } from "../address";
import { Waterfall } from "../charts/waterfall";
import { ms, NONE, number, percent, shorten, signed, times } from "../format";
import { asSentence, Bar, Begin, Breaking, Dot, Section, Sentence, Word } from "../parts";
import { everyPhase, stepsCounted } from "../steps";
import { Table, type Column } from "../table";
import { timeFormat, inUnit } from "../units";
import type { ComparisonPage, Difference, Group, KernelChange, KernelUse, LayerTable, Part, PhaseComparison, PhaseKernels, StepTimes, Summary } from "../types";

export function ComparisonView({ page, diagnose = null }: { page: ComparisonPage; /** Where the dashboard says why they differ. */ diagnose?: string | null }) {
  const { comparison } = page;
  const labels = comparison.profiles.map((side) => side.label);
  return (
    <>
      <Begin headline={page.headline} severity={page.headline.severity} because={comparison.verdict.because} warnings={comparison.warnings} todo={diagnose ? whatToDo(page, diagnose) : null} />
      <Section id="sides" title="Profiles" about={ofSides(comparison)}>
        <Table caption="Profiles" rows={sides(page)} columns={sideColumns(comparison)} />
        {comparison.left_out.length > 0 && <p class="about">Not compared: {comparison.left_out.join(", ")}.</p>}
      </Section>
      {comparison.phases.map((phase, at) => <Phase key={at} phase={phase} labels={labels} />)}
      {page.kernels?.phases.map((phase, at) => <Kernels key={at} phase={phase} labels={labels} />)}
      {page.layers ? <Layers table={page.layers} unlike={comparison.phases.every((one) => one.per === "profile")} /> : <Section id="layers" title="Layers" about={page.no_layers}>{null}</Section>}
    </>
  );
}

/** What the library advises, with places of the dashboard for its commands. */
function whatToDo(page: ComparisonPage, diagnose: string) {
  const { advice, next, next_shows: shows } = page.comparison.verdict;
  const kernels = page.kernels?.phases[0];
  if (!next || (shows === "kernels" && !kernels)) return null;
  if (shows === "kernels" && kernels) return <p class="do"><strong><a href={`#${kernelsId(kernels)}`}>See which kernels differ</a>.</strong></p>;
  if (!advice) return <p class="do"><strong><Link to={diagnose}>See why they differ</Link>: the diagnosis.</strong></p>;
  return <p class="do"><strong><Sentence text={asSentence(advice)} /></strong> <Link to={diagnose}>The whole diagnosis</Link></p>;
}

const kernelsId = (phase: PhaseKernels): string => `kernels-${phase.phase ?? phase.per}`;

type Comparison = ComparisonPage["comparison"];
type CompareSide = Comparison["profiles"][number] & { summary: Summary | undefined; step: StepTimes | null };

/** Each profile with the steps that the verdict is about. */
const sides = ({ comparison, summaries }: ComparisonPage): CompareSide[] => comparison.profiles.map((side, at) => ({ ...side, summary: summaries[at], step: comparison.phases[0]?.steps[at] ?? null }));

const perStep = (comparison: Comparison): boolean => comparison.phases[0]?.per === "step";

const ofSides = (comparison: Comparison): string => (perStep(comparison) ? `Means per ${[comparison.phases[0]?.phase, "step"].filter(Boolean).join(" ")}: the recordings may hold different numbers of steps.` : "Shares of the whole recordings, from the first GPU activity to the last.");

/** Per step where steps can be compared, else shares: totals of recordings of different length say nothing side by side. */
function sideColumns(comparison: Comparison): Column<CompareSide>[] {
  return [
    { id: "label", title: "Profile", text: true, value: (row) => row.label },
    { id: "gpu", spare: 2, title: "GPU", text: true, value: (row) => row.devices.join(", ") || NONE },
    ...(perStep(comparison) ? [
      { id: "steps", title: "Steps compared", value: (row: CompareSide) => row.step?.basis.steps, show: (row: CompareSide) => (row.step ? `${row.step.basis.steps} of ${row.step.basis.of}` : NONE) },
      { id: "time", title: "Step time", value: (row: CompareSide) => row.step?.time_ms, time: "ms" as const },
      { id: "busy", spare: 3, title: "GPU busy, of the step", value: (row: CompareSide) => row.step?.busy_pct, show: (row: CompareSide) => percent(row.step?.busy_pct) },
    ] : [
      { id: "steps", title: "Steps recorded", value: (row: CompareSide) => row.steps, show: (row: CompareSide) => `${row.steps}${row.cut ? ` (${row.cut} cut)` : ""}` },
      { id: "busy", spare: 3, title: "GPU busy, of the span", value: (row: CompareSide) => row.summary?.gpu_busy_pct, show: (row: CompareSide) => percent(row.summary?.gpu_busy_pct) },
      { id: "comm", spare: 4, title: "Exposed communication, of the span", value: (row: CompareSide) => row.summary?.exposed_comm_pct, show: (row: CompareSide) => (row.summary?.comm_ms === 0 ? "none" : percent(row.summary?.exposed_comm_pct)) },
    ]),
    { id: "compared", spare: 1, title: "Compared, of its GPU time", value: (row) => row.compared_pct, show: (row) => percent(row.compared_pct) },
  ];
}

function Phase({ phase, labels }: { phase: PhaseComparison; labels: string[] }) {
  const name = phase.phase ?? (phase.per === "step" ? "Steps" : "Whole profiles");
  const id = `phase-${phase.phase ?? phase.per}`;
  const total = (at: number) => phase.steps[at]?.time_ms ?? phase.gpu_ms[at] ?? 0;
  const step = phase.per === "step" ? total(0) : null;
  const title = `${name[0]?.toUpperCase()}${name.slice(1)}`;
  return (
    <Section id={id} title={phase.per === "step" ? `${title}: ${labels.map((label, at) => `${label} ${ms(total(at)).replace(" ", "\u00a0")}`).join(" · ")}` : `${title}: shares of the GPU time`} about={phase.per === "step" ? `Per step of this phase and per GPU: ${labels.map((label, at) => `${label} over ${phase.steps[at] ? stepsCounted(phase.steps[at].basis, false) : "no steps"}`).join("; ")}. The others are compared with the first profile.` : "Their work may differ, so that shares are compared and not times; differences are in percentage points."}>
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

const RELATION: Record<string, string> = { same: "same kernel", replaced: "replaced", split: "split", fused: "fused", changed: "several by several", new: "only after", gone: "only before" };

const namesOf = (uses: KernelUse[]): string => uses.map((use) => use.name).join(" + ");

function kernelColumns(labels: string[]): Column<KernelChange>[] {
  return [
    { id: "kernel", title: "Kernel", text: true, long: true, value: (row) => namesOf(row.before) || namesOf(row.after), show: (row) => <span class="opener"><Dot category={row.category} /><span><Breaking text={shorten(namesOf(row.before) || namesOf(row.after), 60)} />{row.relation !== "same" && row.before.length > 0 && row.after.length > 0 && <span class="faint block">→ <Breaking text={shorten(namesOf(row.after), 60)} /></span>}</span></span> },
    { id: "role", spare: 5, title: "Role", text: true, tight: true, value: (row) => row.role ?? NONE },
    { id: "relation", spare: 4, title: "Match", text: true, tight: true, value: (row) => RELATION[row.relation] ?? row.relation, show: (row) => <Word text={RELATION[row.relation] ?? row.relation} /> },
    { id: "before", spare: 2, title: labels[0] ?? "before", value: (row) => row.before_ms, time: "ms" },
    { id: "after", spare: 1, title: labels[1] ?? "after", value: (row) => row.after_ms, time: "ms" },
    { id: "diff", title: "Difference", value: (row) => row.diff_ms, time: "ms", signed: true, show: (row, text) => <span class={row.differs ? (row.diff_ms > 0 ? "worse" : "better") : ""}>{text}</span> },
    { id: "interval", spare: 3, title: "95 % interval", value: (row) => row.low_ms, time: "ms", signed: true, show: (row, text, write) => (row.low_ms === null || row.high_ms === null ? "too few steps" : `${text} to ${write(row.high_ms)}`) },
  ];
}

/** Where the work may differ: shares in place of times, which say nothing of speed. */
function kernelShares(labels: string[], phase: PhaseKernels): Column<KernelChange>[] {
  const before = (row: KernelChange): number => (100 * row.before_ms) / (phase.before_ms || 1);
  const after = (row: KernelChange): number => (100 * row.after_ms) / (phase.after_ms || 1);
  return [
    ...kernelColumns(labels).slice(0, 3),
    { id: "before", spare: 2, title: labels[0] ?? "before", help: SHARE, value: before, show: (row) => percent(before(row)) },
    { id: "after", spare: 1, title: labels[1] ?? "after", help: SHARE, value: after, show: (row) => percent(after(row)) },
    { id: "diff", title: "Difference, points", value: (row) => after(row) - before(row), show: (row) => points(after(row) - before(row)) },
  ];
}

const SHARE = "Share of the GPU time of the profile";

/** A difference of two shares. */
const points = (value: number): string => signed(value, (size) => size.toFixed(1));

/** What got slower, kernel by kernel. */
function Kernels({ phase, labels }: { phase: PhaseKernels; labels: string[] }) {
  const columns = useMemo(() => (phase.per === "step" ? kernelColumns(labels) : kernelShares(labels, phase)), [labels, phase]);
  const name = phase.phase ?? (phase.per === "step" ? "step" : "whole profile");
  return (
    <Section id={kernelsId(phase)} title={`${name[0]?.toUpperCase()}${name.slice(1)}, kernel by kernel`} about={<>Kernels that do the same work, also where they were renamed, fused or split; {phase.per === "step" ? "per step and GPU" : "in shares of the GPU time of the whole profiles, whose work may differ"}. {percent(phase.matched_pct[0])} and {percent(phase.matched_pct[1])} of the GPU time is in rows that both have.{phase.per === "step" && " Colored where 0 is outside the interval."}</>}>
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
    { id: "name", title: "Part", text: true, tight: dots, long: !dots, value: (row) => row.name, show: (row) => <>{dots && <Dot category={row.name} />}{dots ? <Word text={row.name} /> : <Breaking text={shorten(row.name, 50)} />}</> },
    ...(step === null ? shareColumns(labels) : labels.map((label, at): Column<Part> => ({ id: `time-${at}`, spare: at + 1, title: label, value: (row) => row.time_ms[at], time: "ms" }))),
    ...(step === null ? [] : labels.slice(1)).map((label, index): Column<Part> => ({ id: `diff-${index}`, title: labels.length === 2 ? "Difference" : `Δ ${label}`, help: `${label} minus ${labels[0]}`, value: (row) => change(row, index + 1), time: "ms", signed: true, show: (row, text) => <Change value={change(row, index + 1)} text={text} colored={Math.abs(change(row, index + 1)) >= COLORED * (step ?? 0)} /> })),
  ], [parts, labels, dots, step]);
  return <Table caption={caption} columns={columns} rows={parts} most={20} sort={{ id: step === null ? "share-0" : "time-0", down: true }} search={(row) => row.name} />;
}

/** Of each profile, and how the others differ from the first. */
function shareColumns(labels: string[]): Column<Part>[] {
  const apart = (row: Part, at: number): number => (row.pct[at] ?? 0) - (row.pct[0] ?? 0);
  return [
    ...labels.map((label, at): Column<Part> => ({ id: `share-${at}`, spare: at + 1, title: label, help: SHARE, value: (row) => row.pct[at], show: (row) => <span class="with-bar">{percent(row.pct[at])}<Bar share={row.pct[at] ?? 0} /></span> })),
    ...labels.slice(1).map((label, index): Column<Part> => ({ id: `points-${index}`, title: labels.length === 2 ? "Difference, points" : `Δ ${label}, points`, help: `${label} minus ${labels[0]}`, value: (row) => apart(row, index + 1), show: (row) => points(apart(row, index + 1)) })),
  ];
}

const change = (row: Part, at: number): number => (row.time_ms[at] ?? 0) - (row.time_ms[0] ?? 0);

const Change = ({ value, text, colored }: { value: number; text: string; colored: boolean }) => <span class={!colored ? "" : value > 0 ? "worse" : "better"}>{text}</span>;

function Layers({ table, unlike }: { table: LayerTable; /** The passes do not do the same work: shares, and no ratios. */ unlike: boolean }) {
  // One unit for all figures, so that roles can be compared with layers and passes.
  const format = timeFormat(table.layer_kinds.flatMap((kind) => kind.groups.flatMap((group) => group.rows.flatMap((row) => row.time_us.map((value) => value && 1e3 * value)))));
  const writeOf = (whole: (number | null)[]): Write => (value, at) => {
    if (value == null) return NONE;
    return unlike ? percent((100 * value) / (whole[at] || 1)) : inUnit(1e3 * value, format);
  };
  const ofPass = writeOf(table.end_to_end_us);
  const sums: [string, number[]][] = [
    ["Layers", table.layers_us], ["Not attributed", table.unattributed_us], ["Idle", table.idle_us], ["Overlapped", table.overlapped_us], ["End to end", table.end_to_end_us],
  ];
  return (
    <Section id="layers" title="One layer, role by role" about={<>{table.phase ?? "All"} passes ({table.passes.map((count) => number(count)).join(" and ")}), {table.stat} per {table.per}, {unlike ? "in shares of a layer and of a pass, since these do not do the same work" : `in ${format.unit}`}, over {[...new Set(table.basis.map(everyPhase))].join(" and ")}. Profiles are aligned by group and role, never by kernel name. Rows add up to groups, and groups to a layer.</>}>
      {table.layer_kinds.map((kind) => (
        <div class="scroll" key={kind.kind} tabIndex={0} role="region" aria-label={`Layer ${kind.kind}`}>
          <table class="layers">
            <caption>{kind.kind} ({kind.layers.map((count) => `${count} layers`).join(" / ")})</caption>
            <thead><tr><th scope="col" class="text">Role</th>{table.profiles.map((name, at) => <th key={at} scope="col" class={`number side-${at % 4}`}><Breaking text={name} /></th>)}{!unlike && <th scope="col" class="number">Ratio</th>}<th scope="col" class="text spare">Kernels</th></tr></thead>
            {kind.groups.map((group) => <Group key={group.group} group={group} write={writeOf(kind.sum_us)} unlike={unlike} />)}
            <tbody><SumRow name="One layer" values={kind.sum_us} write={writeOf(kind.sum_us)} unlike={unlike} strong /></tbody>
          </table>
        </div>
      ))}
      <div class="scroll">
        <table class="layers">
          <caption>A whole pass</caption>
          <thead><tr><th scope="col" class="text">Part</th>{table.profiles.map((name, at) => <th key={at} scope="col" class={`number side-${at % 4}`}><Breaking text={name} /></th>)}{!unlike && <th scope="col" class="number">Ratio</th>}<td class="spare" /></tr></thead>
          <tbody>
            {table.outside.map((group) => <SumRow key={group.group} name={group.group} values={group.sum_us} write={ofPass} unlike={unlike} />)}
            {sums.map(([name, values]) => <SumRow key={name} name={name} values={values} write={ofPass} unlike={unlike} strong={name === "End to end"} />)}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

type Write = (value: number | null | undefined, at: number) => string;

function Group({ group, write, unlike }: { group: Group; write: Write; unlike: boolean }) {
  return (
    <tbody>
      {group.rows.map((row, at) => (
        <tr key={at}>
          <th scope="row" class="text"><Breaking text={row.role} /></th>
          {row.time_us.map((value, side) => <td key={side} class="number">{write(value, side)}</td>)}
          {!unlike && <td class="number">{ratio(row.time_us)}</td>}
          <td class="text spare kernels">{row.kernels.map((names, side) => names.length > 0 && <div key={side} class={`side-${side % 4}`} title={names.join(", ")}><Breaking text={shorten(names.join(", "), 90)} /></div>)}</td>
        </tr>
      ))}
      <SumRow name={`${group.group}, sum`} values={group.sum_us} write={write} unlike={unlike} />
    </tbody>
  );
}

function SumRow({ name, values, write, unlike, strong }: { name: string; values: (number | null)[]; write: Write; unlike: boolean; strong?: boolean }) {
  return (
    <tr class={strong ? "sum strong" : "sum"}>
      <th scope="row" class="text"><Breaking text={name} /></th>
      {values.map((value, at) => <td key={at} class="number">{write(value, at)}</td>)}
      {!unlike && <td class="number">{ratio(values)}</td>}
      <td class="spare" />
    </tr>
  );
}

function ratio(values: (number | null | undefined)[]): string {
  const [first, second] = values;
  return first && second ? times(second / first) : NONE;
}
