// From one total to another, part by part; the bars add up.
import { useMemo } from "preact/hooks";
import { Chart, mark, widthOf, type Frame } from "../chart";
import { BETTER, SIDES, WORSE } from "../colors";
import { ms, number, percent, shorten, signed } from "../format";
import { inUnit, SIZE, timeFormat } from "../units";
import { boxOf, XAxis } from "./axes";
import { linear } from "./scale";

export interface WaterfallPart { name: string; delta_ms: number; note?: string }

interface Step { name: string; from: number; to: number; color: string; note: string; total: boolean }

interface Props { before: number; after: number; beforeName: string; afterName: string; parts: WaterfallPart[]; most?: number }

/** Parts below this share of all that changed are drawn as one. */
const SMALL = 0.004;

/** Height of a bar with its space. */
const ROW = 27;

export function Waterfall({ before, after, beforeName, afterName, parts, most = 14 }: Props) {
  const steps = useMemo(() => fold(before, after, beforeName, afterName, parts, most), [before, after, beforeName, afterName, parts, most]);
  const start = axisStart(steps);
  // One unit for all labels, so that they can be compared without reading it.
  const format = timeFormat(steps.map((step) => SIZE.ms * sizeOf(step)));
  const label = (step: Step): string => `${!step.total && sizeOf(step) > 0 ? "+" : ""}${inUnit(SIZE.ms * sizeOf(step), format)} ${format.unit}`;
  const draw = (frame: Frame) => {
    const { ink, narrow } = frame;
    const names = steps.map((step) => shorten(step.name, narrow ? 16 : 34));
    const box = boxOf(frame, 14 + Math.max(...names.map((name) => widthOf(name, 12))), 92, 4, 44);
    const ends = steps.flatMap((step) => (step.total ? [step.to] : [step.from, step.to]));
    const x = linear(start, Math.max(...ends), [box.left, box.right]);
    return (
      <>
        <XAxis scale={x} box={box} ink={ink} title="ms" format={(value) => number(value, 4)} lines />
        {steps.map((step, at) => {
          const [first, last] = step.total ? [start, step.to] : [Math.min(step.from, step.to), Math.max(step.from, step.to)];
          const top = box.top + at * ROW;
          const next = steps[at + 1];
          return (
            <g key={at} {...mark(step.name, step.note)}>
              <rect x={0} y={top} width={frame.width} height={ROW} fill="transparent" />
              <text x={box.left - 8} y={top + 17} font-size="12" text-anchor="end" fill={ink.text}>{names[at]}</text>
              <rect x={x(first)} y={top + 4} width={Math.max(1, x(last) - x(first))} height={18} fill={step.color} />
              {next && <line x1={x(step.to)} x2={x(step.to)} y1={top + 4} y2={top + ROW + 22} stroke={ink.faint} stroke-opacity="0.5" />}
              <text x={x(last) + 6} y={top + 17} font-size="12" fill={ink.text}>{label(step)}</text>
            </g>
          );
        })}
      </>
    );
  };
  return (
    <>
      <Chart label={`From ${beforeName}, ${ms(before)}, to ${afterName}, ${ms(after)}, part by part`} height={50 + steps.length * ROW} draw={draw} />
      {start > 0 && <p class="about">The axis starts at {ms(start)}, not at 0, to make the parts visible: compare the differences, not the lengths of the totals.</p>}
    </>
  );
}

/** A total, or by how much a part changes it, in ms. */
const sizeOf = (step: Step): number => (step.total ? step.to : step.to - step.from);

/** 0, unless everything happens in the last part of the axis. */
function axisStart(steps: Step[]): number {
  const ends = steps.flatMap((step) => (step.total ? [step.to] : [step.from, step.to]));
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  if (!(low > 0) || high - low > 0.35 * high) return 0;
  const unit = 10 ** Math.floor(Math.log10(high - low || high));
  return Math.max(0, Math.floor((low - 0.25 * (high - low)) / unit) * unit);
}

function fold(before: number, after: number, beforeName: string, afterName: string, parts: WaterfallPart[], most: number): Step[] {
  const ordered = [...parts].filter((part) => part.delta_ms !== 0).sort((a, b) => Math.abs(b.delta_ms) - Math.abs(a.delta_ms));
  const all = ordered.reduce((sum, part) => sum + Math.abs(part.delta_ms), 0);
  const large = ordered.filter((part) => Math.abs(part.delta_ms) >= SMALL * all).length;
  const shown = ordered.slice(0, Math.min(most, Math.max(1, large)));
  const rest = ordered.slice(shown.length);
  const steps: Step[] = [{ name: beforeName, from: 0, to: before, color: SIDES[0] as string, note: ms(before), total: true }];
  let at = before;
  const change = after - before;
  const smaller = { name: `${rest.length} smaller`, delta_ms: rest.reduce((sum, part) => sum + part.delta_ms, 0) };
  for (const part of [...shown, ...(rest.length ? [smaller] : [])] as WaterfallPart[]) {
    const share = change ? ` · ${percent((100 * part.delta_ms) / change)} of the difference` : "";
    steps.push({ name: part.name, from: at, to: at + part.delta_ms, color: part.delta_ms > 0 ? WORSE : BETTER, note: `${signed(part.delta_ms, ms)}${share}${part.note ? ` · ${part.note}` : ""}`, total: false });
    at += part.delta_ms;
  }
  steps.push({ name: afterName, from: 0, to: after, color: SIDES[1] as string, note: ms(after), total: true });
  return steps;
}
