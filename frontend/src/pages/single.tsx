// One recording on its own: are its steps steady, and if not, what do the slow ones have in common?
import { useMemo } from "preact/hooks";
import { go, Link } from "../address";
import { Histogram } from "../charts/distribution";
import { Sensor } from "../charts/sensor";
import { RunSteps } from "../charts/steps";
import { Waterfall } from "../charts/waterfall";
import { counted, ms, NONE, times } from "../format";
import { asSentence, Facts, Figures, Section, Sentence, Terms, VerdictSection } from "../parts";
import { Table } from "../table";
import type { SingleDiagnosis, SinglePage, StepOfRun } from "../types";
import { Cause, components, Missing, MOST_SENSORS, NotNamed, title, waterfallParts, withoutVerdict } from "./diagnosis";

const COMPONENTS = components("Usual", "Slow");

/** `address` is where the dashboard shows the profile; null in a report. */
export function SingleView({ page, address = null }: { page: SinglePage; address?: string | null }) {
  const found = page.diagnosis;
  const at = (step: number): string => `${address}?step=${step}#timeline`;
  const numbers = new Set(found.outliers?.numbers);
  const slow = page.steps.filter((step) => numbers.has(step.number));
  const bands = slow.map((step): [number, number] => [step.start_ms, step.start_ms + step.time_ms]);
  const whole = useMemo(() => [page.steps.map((step) => ({ ...step, whole: step.looked_at }))], [page]);
  // A sensor that never moves says nothing about what changes within a run.
  const sensors = page.sensors.filter(({ line }) => new Set(line.values[0]).size > 1);
  return (
    <>
      <VerdictSection severity={page.severity} title={found.verdict === "cannot_tell" && found.run.p50_ms !== null && found.components.length > 0 ? "Uneven steps" : title(found.verdict)}>
        <p class="sentence"><Terms text={withoutVerdict(found.sentence, found.verdict)} /></p>
        <Figures figures={found.figures} />
        {found.next_step && <p class="do"><strong><Sentence text={asSentence(found.next_step)} /></strong></p>}
        {found.warnings.length > 0 && <ul class="warnings">{found.warnings.map((text, index) => <li key={index}><Sentence text={text} /></li>)}</ul>}
      </VerdictSection>
      {page.steps.length > 0 && (
        <Section id="steps" title="Step times" about={`${counted(found.run.steps, "step")} of ${found.run.steps_in_recording} looked at${leftOut(found)}. Each time is to the start of the next step.${address ? " Click a step to see it in the profile." : ""}`}>
          <RunSteps page={page} open={address === null ? null : (step) => go(at(step))} />
          <Facts facts={factsOf(found)} />
          <Histogram runs={whole} labels={[page.title]} />
        </Section>
      )}
      {slow.length > 0 && (
        <Section id="slow" title="Slow steps" about={`${counted(slow.length, "step")} that ${slow.length === 1 ? "takes" : "take"} much longer than the typical step of ${slow.length === 1 ? "its" : "their"} phase and part of the run.`}>
          <Table caption="Slow steps" rows={slow} most={12} columns={[
            { id: "step", title: "Step", value: (row: StepOfRun) => row.number, show: (row: StepOfRun) => (address === null ? row.number : <Link to={at(row.number)}>{row.number}</Link>) },
            { id: "start", title: "At", value: (row: StepOfRun) => row.start_ms, time: "ms" },
            { id: "time", title: "Time", value: (row: StepOfRun) => row.time_ms, time: "ms" },
            { id: "phase", title: "Phase", text: true, value: (row: StepOfRun) => row.phase ?? NONE },
          ]} />
        </Section>
      )}
      {found.causes.length > 0 && (
        <Section id="causes" title="Causes" about="What sets the slow part of the run apart from the rest, ranked by how well the evidence fits.">
          {found.causes.map((cause) => <Cause key={cause.id} cause={cause} />)}
          <Missing texts={found.missing_evidence} />
          <NotNamed excluded={found.excluded} />
        </Section>
      )}
      {found.components.length > 0 && <Difference found={found} />}
      {sensors.length > 0 && (
        <Section id="sensors" title="Sensors" about={<>Along ms since the first step; those that can make a run slow come first.{bands.length > 0 && " Slow steps are shaded."} {page.sensors.length > sensors.length && `${page.sensors.length - sensors.length} that never change are left out.`}</>}>
          <div class="sensors">{sensors.slice(0, MOST_SENSORS).map(({ line, unit }) => <Sensor key={`${line.name} ${line.device}`} line={line} labels={[page.title]} unit={unit} bands={bands} />)}</div>
          {sensors.length > MOST_SENSORS && <details><summary>{sensors.length - MOST_SENSORS} more</summary><div class="sensors">{sensors.slice(MOST_SENSORS).map(({ line, unit }) => <Sensor key={`${line.name} ${line.device}`} line={line} labels={[page.title]} unit={unit} bands={bands} />)}</div></details>}
        </Section>
      )}
    </>
  );
}

/** What the slow part of a run takes longer than the rest of it. */
function Difference({ found }: { found: SingleDiagnosis }) {
  const sum = (side: "normal_ms" | "abnormal_ms") => found.components.reduce((total, one) => total + one[side], 0);
  const [usual, slow] = found.compared;
  const halves = found.verdict === "cannot_tell";
  return (
    <Section id="waterfall" title={halves ? "What the slower half adds" : "What the slow steps have in common"} about={`Mean of ${halves ? `the slower half, ${counted(slow ?? 0, "step")}, against the ${usual ?? 0} of the faster half` : `${counted(slow ?? 0, "slow step")} against ${usual ?? 0} others`}. The parts add up exactly to the difference, ${ms(found.delta_ms)}; each is split into more calls and slower calls.`}>
      <Waterfall before={sum("normal_ms")} after={sum("abnormal_ms")} beforeName={halves ? "faster half" : "usual"} afterName={halves ? "slower half" : "slow"} parts={waterfallParts(found)} />
      <Table caption="Components of the step" columns={COMPONENTS} rows={found.components} most={15} search={(row) => `${row.component} ${row.phase ?? ""}`} />
    </Section>
  );
}

function factsOf(found: SingleDiagnosis): [string, string][] {
  const facts: [string, string][] = found.run.mean_ms === null ? [] : [["Mean of all phases", ms(found.run.mean_ms)]];
  for (const point of found.change_points) facts.push([`Change at step ${point.step}`, `${times(point.ratio)}, ${ms(point.before_ms)} → ${ms(point.after_ms)} (p = ${point.p.toFixed(3)})`]);
  if (found.drift) facts.push(["Drift, start to end", `${times(found.drift.ratio)} [${found.drift.low.toFixed(2)}, ${found.drift.high.toFixed(2)}]`]);
  if (found.outliers?.every) facts.push(["Slow steps", `every ${found.outliers.every} steps (p = ${found.outliers.p?.toFixed(3)})`]);
  return facts;
}

const leftOut = (found: SingleDiagnosis): string => {
  const reasons = Object.entries(found.run.dropped).filter(([, steps]) => steps > 0);
  return reasons.length ? ` (left out: ${reasons.map(([why, steps]) => `${steps} ${why}`).join(", ")})` : "";
};
