// The steps of one recording along its time, with those that are slow and the places where it changes.
import { Chart, mark, type Frame } from "../chart";
import { SIDES } from "../colors";
import { ms, times } from "../format";
import type { SinglePage, StepOfRun } from "../types";
import { boxOf, Keys, XAxis, YAxis } from "./axes";
import { linear } from "./scale";

const [USUAL, SLOW] = SIDES as [string, string];

export function RunSteps({ page, open }: { page: SinglePage; /** What a click on a step does. */ open: ((step: number) => void) | null }) {
  const slow = new Set(page.diagnosis.outliers?.numbers);
  const counted = page.steps.filter((step) => step.looked_at);
  const levels = levelsOf(page);
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 56, 16, 30, 44);
    const last = page.steps.at(-1);
    const x = linear(0, Math.max(last ? last.start_ms : 1, 1e-3), [box.left, box.right]);
    // Steps that are left out may be many times longer: those beyond the axis stand at its end.
    const y = linear(0, Math.max(...(counted.length ? counted : page.steps).map((step) => step.time_ms), 1e-6), [box.bottom, box.top], true);
    const point = (step: StepOfRun) => {
      const [cx, cy] = [x(step.start_ms), Math.max(box.top, y(step.time_ms))];
      const told = mark(`step ${step.number}: ${ms(step.time_ms)}`, step.phase ?? "phase unknown", `at ${ms(step.start_ms)}`, !step.looked_at ? "left out" : slow.has(step.number) && "slow");
      const pick = open && { class: "pick", onClick: () => open(step.number) };
      if (!step.looked_at) return <circle key={step.number} cx={cx} cy={cy} r="4" fill={ink.surface} stroke={ink.faint} {...told} {...pick} />;
      return slow.has(step.number) ? <path key={step.number} d={`M${cx} ${cy - 6}l6 6l-6 6l-6 -6Z`} fill={SLOW} {...told} {...pick} /> : <circle key={step.number} cx={cx} cy={cy} r="4" fill={USUAL} fill-opacity="0.85" {...told} {...pick} />;
    };
    return (
      <>
        <Keys keys={[{ name: "step", color: USUAL }, ...(slow.size ? [{ name: "slow step", color: SLOW, diamond: true }] : []), ...(counted.length < page.steps.length ? [{ name: "left out", color: ink.faint, hollow: true }] : [])]} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="ms since the first step" />
        <YAxis scale={y} box={box} ink={ink} title="step ms" />
        {levels.map(({ from, to, typical, ratio }) => (
          <g key={from} {...mark(`typical step: ${ms(typical)}`, ratio !== null && `${times(ratio)} from here on`)}>
            {ratio !== null && <line x1={x(from)} x2={x(from)} y1={box.top} y2={box.bottom} stroke={ink.text} stroke-dasharray="4 3" />}
            <line x1={x(from)} x2={x(to)} y1={y(typical)} y2={y(typical)} stroke={ink.text} stroke-width="2" />
          </g>
        ))}
        {[...page.steps].sort((a, b) => Number(slow.has(a.number)) - Number(slow.has(b.number))).map(point)}
      </>
    );
  };
  return <Chart label={`Times of ${page.steps.length} steps along the recording${slow.size ? `, ${slow.size} of them slow` : ""}`} height={280} draw={draw} />;
}

interface Level { from: number; to: number; typical: number; /** To the level before; null for the first. */ ratio: number | null }

/** What a typical step takes between the places where that changes. */
function levelsOf({ steps, diagnosis }: SinglePage): Level[] {
  const points = diagnosis.change_points;
  const first = points[0];
  if (!first) return [];
  const start = (number: number): number => steps.find((step) => step.number === number)?.start_ms ?? 0;
  const end = steps.at(-1)?.start_ms ?? 0;
  return [
    { from: 0, to: start(first.step), typical: first.before_ms, ratio: null },
    ...points.map((point, at) => ({ from: start(point.step), to: points[at + 1] ? start((points[at + 1] as typeof point).step) : end, typical: point.after_ms, ratio: point.ratio })),
  ];
}
