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

export function TrendChart({ trend }: { trend: Trend }) {
  const { points, changes } = trend;
  const draw = (frame: Frame) => {
    const { ink, narrow } = frame;
    const box = boxOf(frame, 70, 24, 24, 30);
    const x = linear(0, Math.max(1, points.length - 1), [box.left, box.right]);
    const y = linear(0, Math.max(...points.map((point) => point.value), 1e-9), [box.bottom, box.top], true);
    const labelled = changes.length <= (narrow ? 3 : MOST_LABELS);
    const wide = (box.right - box.left) / Math.max(1, points.length - 1);
    return (
      <>
        <XAxis scale={x} box={box} ink={ink} ticks={x.ticks.filter(Number.isInteger)} format={(at) => points[at]?.label.slice(0, 10) ?? ""} />
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
  return <Chart label={`${trend.what} over ${points.length} profiles`} height={240} draw={draw} />;
}
