// What changed between two runs, and why.
import { useMemo } from "preact/hooks";
import { Histogram, StepTimes } from "../charts/distribution";
import { Sensor } from "../charts/sensor";
import { Waterfall } from "../charts/waterfall";
import { counted, ms, NONE, number, percent, signed } from "../format";
import { SIDES } from "../colors";
import { asSentence, Bar, Facts, Figures, Section, Sentence, Terms, VerdictSection, Word } from "../parts";
import { Table, type Column } from "../table";
import type { Component, CounterChange, DiagnosisPage, Excluded, NamedCause, RunSummary } from "../types";

export const MOST_SENSORS = 12;

export function DiagnosisView({ page }: { page: DiagnosisPage }) {
  const found = page.diagnosis;
  const [normal, abnormal] = page.labels as [string, string];
  const changed = useMemo(() => sensorOrder(page), [page]);
  const counters = useMemo(() => [...found.counters].sort((a, b) => sensorRank(a) - sensorRank(b)), [found]);
  return (
    <>
      <VerdictSection severity={page.severity} title={title(found.verdict)}>
        <p class="sentence"><Terms text={withoutVerdict(found.sentence, found.verdict)} /></p>
        <Figures figures={page.figures} />
        {found.next_step && <p class="do"><strong><Sentence text={asSentence(found.next_step)} /></strong></p>}
        <Facts facts={[
          ["Compared", found.unit],
          ...found.normal.p50_ms !== null && found.abnormal.p50_ms !== null && found.ratio !== null ? quantiles(found.normal, found.abnormal) : [],
          ["Comparability", <Word key="level" text={found.comparability.level === "refuse" ? "not comparable" : found.comparability.level} />],
          ["Steps compared", [found.normal, found.abnormal].map((run) => `${run.steps} of ${run.steps_in_recording}`).join(" → ")],
          ...found.comparability.noise_floor_pct !== null ? [["Noise inside the normal run", `±${percent(found.comparability.noise_floor_pct)}`] as [string, string]] : [],
          ...found.comparability.run_noise_pct !== null ? [["Noise between starts", `up to ±${percent(found.comparability.run_noise_pct, 0)}`] as [string, string]] : [],
        ]} />
        {[...found.comparability.reasons, ...found.warnings].length > 0 && <ul class="warnings">{[...found.comparability.reasons, ...found.warnings].map((text, at) => <li key={at}>{text}</li>)}</ul>}
      </VerdictSection>
      <Section id="causes" title="Causes" about="Ranked by how well the evidence fits. Utilization alone never indicates a cause.">
        {found.causes.map((cause) => <Cause key={cause.id} cause={cause} />)}
        {found.causes.length > 0 && <Missing texts={found.missing_evidence} />}
        <NotNamed excluded={found.excluded} />
      </Section>
      {found.components.length > 0 && (
        <Section id="waterfall" title="Where the difference is" about="Parts of the mean step, which add up exactly to the difference. Each is split into more calls and slower calls.">
          {found.normal.mean_ms !== null && found.abnormal.mean_ms !== null && <Waterfall before={found.normal.mean_ms} after={found.abnormal.mean_ms} beforeName={normal} afterName={abnormal} parts={waterfallParts(found)} />}
          <Table caption="Components of the step" columns={COMPONENTS} rows={found.components} most={15} search={(row) => `${row.component} ${row.phase ?? ""}`} />
        </Section>
      )}
      {found.latent.length > 0 && (
        <Section id="latent" title="Changed, but without effect" about="Hidden by other work, or not on the critical path of the step: 0 ms of the difference.">
          <ul>{found.latent.map((one, at) => <li key={at}>{one.text} <span class="faint">{one.component}{one.id ? `, ${one.id}` : ""}</span></li>)}</ul>
        </Section>
      )}
      <Section id="steps" title="Step times">
        <StepTimes runs={page.steps} labels={page.labels} />
        <Histogram runs={page.steps} labels={page.labels} />
      </Section>
      {found.counters.length > 0 && (
        <Section id="counters" title="Sensors" about="Drivers can be causes; consequences follow from them. Each sample inside a step is counted once.">
          <Table caption="Sensors" columns={COUNTERS} rows={counters} most={20} search={(row) => `${row.name} ${row.part} ${row.state}`} />
          {changed.length > 0 && <p class="legend">{page.labels.map((label, side) => <span key={side}><span class="dot" aria-hidden="true" style={{ background: SIDES[side] }} />{label}</span>)}<span class="faint">along ms since the first step</span></p>}
          <div class="sensors">{changed.slice(0, MOST_SENSORS).map(([line, unit]) => <Sensor key={`${line.name} ${line.device}`} line={line} labels={page.labels} unit={unit} />)}</div>
          {changed.length > MOST_SENSORS && <p class="about">{changed.length - MOST_SENSORS} more sensors are in the table only.</p>}
        </Section>
      )}
    </>
  );
}

export const title = (verdict: string): string => `${verdict[0]?.toUpperCase()}${verdict.slice(1).replaceAll("_", " ")}`;

/** A sentence without the verdict that it begins with: that is the title. */
export const withoutVerdict = (sentence: string, verdict: string): string => sentence.replace(new RegExp(`^${title(verdict)}: (.)`), (_, first: string) => first.toUpperCase());

/** Of the same steps as the means. */
const quantiles = (normal: RunSummary, abnormal: RunSummary): [string, string][] => [
  ["Median of the same steps", `${ms(normal.p50_ms)} → ${ms(abnormal.p50_ms)}`],
  ["p99 of the same steps", `${ms(normal.p99_ms)} → ${ms(abnormal.p99_ms)}`],
];

export function waterfallParts(found: { components: Component[] }) {
  const phases = new Set(found.components.map((one) => one.phase)).size;
  return found.components.map((one) => ({ name: [one.component, phases > 1 && one.phase].filter(Boolean).join(", "), delta_ms: one.delta_ms, note: `${signed(one.count_effect_ms, ms)} by count, ${signed(one.duration_effect_ms, ms)} by duration` }));
}

/** What is not known of the causes named. */
export function Missing({ texts }: { texts: string[] }) {
  return texts.length === 0 ? null : <><h3>Not known, and would tell them apart</h3><ul>{texts.map((text, index) => <li key={index}><Sentence text={text} /></li>)}</ul></>;
}

/** Causes that something recorded speaks against, apart from those that could not be judged. */
export function NotNamed({ excluded }: { excluded: Excluded[] }) {
  const kinds: [string, Excluded[]][] = [
    ["ruled out", excluded.filter((one) => one.ruled_out)],
    ["not judged, for lack of data", excluded.filter((one) => !one.ruled_out)],
  ];
  return <>{kinds.map(([kind, causes]) => causes.length > 0 && <details key={kind}><summary>{counted(causes.length, "cause")} {kind}</summary><ul>{causes.map((one) => <li key={one.id}><code>{one.id}</code> <Sentence text={one.reason} /></li>)}</ul></details>)}</>;
}

export function Cause({ cause }: { cause: NamedCause }) {
  return (
    <article class="cause">
      <h3>{cause.title} <code>{cause.id}</code></h3>
      <p class="with-bar">{percent(100 * cause.confidence, 0)} confident<Bar share={100 * cause.confidence} />{cause.explains_pct !== null && <span class="faint">explains {percent(cause.explains_pct, 0)} of the difference</span>}</p>
      {cause.evidence.length > 0 && <><h4>For</h4><ul>{cause.evidence.map((text, at) => <li key={at}><Sentence text={text} /></li>)}</ul></>}
      {cause.against.length > 0 && <><h4>Against</h4><ul>{cause.against.map((text, at) => <li key={at}><Sentence text={text} /></li>)}</ul></>}
      {cause.confirm && <p class="faint">To confirm: <Sentence text={cause.confirm} /></p>}
    </article>
  );
}

/** Colored where the test over steps says that it is no noise. */
const Delta = ({ value, text, q }: { value: number; text: string; q: number | null }) => <span class={q === null || q >= SURE ? "" : value > 0 ? "worse" : value < 0 ? "better" : ""}>{text}</span>;
const SURE = 0.05;

/** Parts of the mean step of two sides. */
export const components = (normal: string, abnormal: string): Column<Component>[] => [
  { id: "component", title: "Component", text: true, long: true, value: (row) => row.component, show: (row) => <Word text={row.component} /> },
  { id: "phase", spare: 8, title: "Phase", text: true, value: (row) => row.phase ?? NONE },
  { id: "normal", spare: 4, title: normal, value: (row) => row.normal_ms, time: "ms" },
  { id: "abnormal", spare: 3, title: abnormal, value: (row) => row.abnormal_ms, time: "ms" },
  { id: "delta", title: "Difference", value: (row) => row.delta_ms, time: "ms", signed: true, show: (row, text) => <Delta value={row.delta_ms} text={text} q={row.q} /> },
  { id: "count", spare: 7, title: "By count", help: "Because of more or fewer calls", value: (row) => row.count_effect_ms, time: "ms", signed: true },
  { id: "duration", spare: 6, title: "By duration", help: "Because calls take longer or shorter", value: (row) => row.duration_effect_ms, time: "ms", signed: true },
  { id: "share", title: "Of difference", value: (row) => row.share_of_delta_pct, show: (row) => percent(row.share_of_delta_pct) },
  { id: "q", spare: 5, title: "q", help: "Mann-Whitney over steps, corrected for all components", value: (row) => row.q, show: (row) => (row.q === null ? "not tested" : row.q < 0.001 ? "< 0.001" : number(row.q)) },
];

const COMPONENTS = components("Normal", "Abnormal");

const COUNTERS: Column<CounterChange>[] = [
  { id: "name", title: "Sensor", text: true, long: true, value: (row) => row.name, show: (row) => <><Word text={row.name} />{row.device === null ? "" : ` (GPU ${row.device})`}</> },
  { id: "part", spare: 3, title: "Part", text: true, tight: true, value: (row) => row.part, show: (row) => <Word text={row.part} /> },
  { id: "normal", title: "Normal", value: (row) => row.normal, show: (row) => number(row.normal) },
  { id: "abnormal", title: "Abnormal", value: (row) => row.abnormal, show: (row) => number(row.abnormal) },
  { id: "unit", title: "Unit", text: true, value: (row) => row.unit },
  { id: "state", spare: 2, title: "State", text: true, tight: true, value: (row) => row.state.replaceAll("_", " "), show: (row) => <Word text={row.state.replaceAll("_", " ")} /> },
];

const sensorRank = (one: CounterChange | undefined): number => (one ? (one.state === "changed" ? 0 : 4) + (one.part === "driver" ? 0 : 1) : 9);

/** Sensors that changed first, drivers before consequences, with their unit. */
function sensorOrder(page: DiagnosisPage): [DiagnosisPage["sensors"][number], string][] {
  const about = new Map(page.diagnosis.counters.map((one) => [`${one.name} ${one.device}`, one]));
  const rank = (key: string): number => sensorRank(about.get(key));
  return page.sensors
    .filter((line) => line.values.every((values) => values.length > 1) && line.values.flat().some((value) => value !== 0))
    .map((line): [DiagnosisPage["sensors"][number], string] => [line, about.get(`${line.name} ${line.device}`)?.unit ?? ""])
    .sort(([a], [b]) => rank(`${a.name} ${a.device}`) - rank(`${b.name} ${b.device}`));
}
