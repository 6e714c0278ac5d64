// Step times of both runs: every step as a point along time, and how they spread.
import { useMemo } from "preact/hooks";
import { Chart, mark, type Frame } from "../chart";
import { SIDES } from "../colors";
import { counted, ms, number, percent } from "../format";
import type { StepTime } from "../types";
import { boxOf, Keys, XAxis, YAxis } from "./axes";
import { linear } from "./scale";

const keysOf = (labels: string[]) => labels.map((name, at) => ({ name, color: SIDES[at] as string, diamond: at === 1 }));

export function StepTimes({ runs, labels }: { runs: StepTime[][]; labels: string[] }) {
  const whole = useMemo(() => runs.map((steps) => steps.filter((step) => step.whole)), [runs]);
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 56, 16, 30, 44);
    const all = whole.flat();
    const x = linear(0, Math.max(...all.map((step) => step.start_ms), 1), [box.left, box.right]);
    const y = linear(0, Math.max(...all.map((step) => step.time_ms), 1e-6), [box.bottom, box.top], true);
    return (
      <>
        <Keys keys={keysOf(labels)} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="ms since the first step" />
        <YAxis scale={y} box={box} ink={ink} title="step ms" />
        {whole.map((steps, side) => steps.map((step, at) => {
          const [cx, cy] = [x(step.start_ms), y(step.time_ms)];
          const told = mark(`${labels[side]}: ${ms(step.time_ms)}`, `${step.phase ?? "phase unknown"}, at ${ms(step.start_ms)}`);
          return side ? <path key={`${side} ${at}`} d={`M${cx} ${cy - 5}l5 5l-5 5l-5 -5Z`} fill={SIDES[side]} fill-opacity="0.8" {...told} /> : <circle key={`${side} ${at}`} cx={cx} cy={cy} r="4" fill={SIDES[side]} fill-opacity="0.8" {...told} />;
        }))}
      </>
    );
  };
  return <Chart label={`Step times of ${labels.join(" and ")} along time`} height={260} draw={draw} />;
}

const BINS = 30;

export function Histogram({ runs, labels }: { runs: StepTime[][]; labels: string[] }) {
  const times = useMemo(() => runs.map((steps) => steps.filter((step) => step.whole).map((step) => step.time_ms)), [runs]);
  const all = times.flat();
  if (!all.length) return null;
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const width = (high - low) / BINS || low / BINS || 1;
  const shares = times.map((values) => {
    const bins = Array.from({ length: BINS }, () => 0);
    for (const value of values) bins[Math.min(BINS - 1, Math.floor((value - low) / width))]! += 1;
    return bins;
  });
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 56, 16, 30, 44);
    const share = (side: number, bin: number) => (100 * (shares[side]?.[bin] ?? 0)) / Math.max(1, times[side]?.length ?? 0);
    const x = linear(low, low + BINS * width, [box.left, box.right]);
    const y = linear(0, Math.max(...shares.flatMap((bins, side) => bins.map((_, bin) => share(side, bin)))), [box.bottom, box.top], true);
    return (
      <>
        <Keys keys={keysOf(labels).map((key) => ({ ...key, diamond: false }))} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="step ms" />
        <YAxis scale={y} box={box} ink={ink} title="% of steps" />
        {Array.from({ length: BINS }, (_, bin) => {
          const [from, to] = [low + bin * width, low + (bin + 1) * width];
          const [left, wide] = [x(from), Math.max(1, x(to) - x(from) - 1)];
          return (
            <g key={bin} {...mark(`${ms(from)} to ${ms(to)}`, ...labels.map((label, side) => `${label}: ${counted(shares[side]?.[bin] ?? 0, "step")}, ${percent(share(side, bin))}`))}>
              <rect x={left} y={box.top} width={wide} height={box.bottom - box.top} fill="transparent" />
              {labels.map((_label, side) => share(side, bin) > 0 && <rect key={side} x={left} y={y(share(side, bin))} width={wide} height={box.bottom - y(share(side, bin))} fill={SIDES[side]} fill-opacity="0.7" />)}
            </g>
          );
        })}
      </>
    );
  };
  return <Chart label={`How the step times of ${labels.join(" and ")} spread: ${number(BINS)} bins`} height={220} draw={draw} />;
}
