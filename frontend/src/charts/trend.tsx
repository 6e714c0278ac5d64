// One value over the profiles of a store, in the order of their dates, with the places where it changes.
import { Chart, mark, type Frame } from "../chart";
import { SIDES, WORSE } from "../colors";
import { number } from "../format";
import type { Trend } from "../types";
import { boxOf, lineOf, XAxis, YAxis } from "./axes";
import { linear } from "./scale";

/** Changes whose size can be written above the chart without overlap. */
const MOST_LABELS = 10;
/** Most symbols that stay distinguishable. */
const MOST_SYMBOLS = 150;

const sizeOf = (change: number | null): string => (change === null ? "" : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(0)} %`);

/** Dates of all points, where they are dates that go on; else null, and points stand side by side. */
function datesOf({ by, points }: Trend): number[] | null {
  const dates = points.map((point) => (by === "date" ? Date.parse(point.label) : Number.NaN));
  return dates.every(Number.isFinite) && (dates[dates.length - 1] ?? 0) > (dates[0] ?? 0) ? dates : null;
}

const DAY = 86_400_000;

export function TrendChart({ trend, name = "" }: { trend: Trend; name?: string }) {
  const { points, changes } = trend;
  const dates = datesOf(trend);
  const draw = (frame: Frame) => {
    const { ink, narrow } = frame;
    const box = boxOf(frame, 70, 24, 24, 30);
    const scale = dates ? linear(dates[0] as number, dates[dates.length - 1] as number, [box.left, box.right]) : linear(0, Math.max(1, points.length - 1), [box.left, box.right]);
    const x = (at: number): number => scale(dates ? (dates[at] ?? 0) : at);
    const days = dates ? (scale.domain[1] - scale.domain[0]) / DAY : 0;
    const labelOf = (value: number): string => (dates ? new Date(value).toISOString().slice(...(days > 4 ? [0, 10] as const : days > 0.1 ? [5, 16] as const : [11, 19] as const)).replace("T", " ") : (points[value]?.label.slice(0, 10) ?? ""));
    const y = linear(0, Math.max(...points.map((point) => point.value), 1e-9), [box.bottom, box.top], true);
    const labelled = changes.length <= (narrow ? 3 : MOST_LABELS);
    const wide = (box.right - box.left) / Math.max(1, points.length - 1);
    return (
      <>
        <XAxis scale={scale} box={box} ink={ink} ticks={scale.ticks.filter(Number.isInteger)} format={labelOf} />
        <YAxis scale={y} box={box} ink={ink} title={trend.unit} />
        {changes.map((change) => (
          <g key={change.at} {...mark(`${sizeOf(change.change_pct)} at ${change.label}`, `${number(change.before)} to ${number(change.after)} ${trend.unit}`, change.diagnose)}>
            <line x1={x(change.at)} x2={x(change.at)} y1={box.top} y2={box.bottom} stroke={WORSE} stroke-dasharray="4 3" stroke-opacity={changes.length > 40 ? 0.35 : 1} />
            <line x1={x(change.at)} x2={x(change.at)} y1={box.top} y2={box.bottom} stroke="transparent" stroke-width="9" />
            {labelled && <text x={x(change.at)} y={box.top - 6} text-anchor="middle" fill={ink.text}>{sizeOf(change.change_pct)}</text>}
          </g>
        ))}
        <path d={lineOf(points.map((point, at) => [x(at), y(point.value)]))} fill="none" stroke={SIDES[0]} pointer-events="none" />
        {points.map((point, at) => (
          <g key={at} {...mark(point.label, point.file, `${number(point.value)} ${trend.unit}`)}>
            <rect x={x(at) - wide / 2} y={y(point.value) - 12} width={Math.max(1, wide)} height={24} fill="transparent" />
            {points.length <= MOST_SYMBOLS && <circle cx={x(at)} cy={y(point.value)} r="3" fill={SIDES[0]} />}
          </g>
        ))}
      </>
    );
  };
  return <Chart label={`${trend.what} over ${points.length} profiles${name && ` of ${name}`}`} height={240} draw={draw} />;
}
