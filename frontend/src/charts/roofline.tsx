// The roofline: FLOP/s against FLOP per byte, both logarithmic, under the roofs of the GPU.
import { useMemo } from "preact/hooks";
import { Chart, mark, widthOf, type Frame, type Ink } from "../chart";
import { categoryColor, familyOf, SIDES } from "../colors";
import { axesText, counted, number, percent, rate, shorten, us } from "../format";
import { toggle, useSelection } from "../selection";
import type { OperatorRow, Roofs } from "../types";
import { boxOf, Keys, XAxis, YAxis, type Box, type Key } from "./axes";
import { log, type Scale } from "./scale";

const LEAST = 1e-3;
/** Room right of a point, so that it does not lie on the names of the roofs. */
const ROOM = 1.3;
const PIPES = ["tensor.bf16", "tensor.fp8", "tensor.fp4", "vector.fp32"];
/** Radius of the point with the largest share, and the least that can be seen. */
const [LARGEST, SMALLEST] = [22, 2.5];
/** Points with a name. */
const NAMED = 10;
/** Shares below this do not set the scale: a profile whose largest operator takes 0.6 % has no large points. */
const WHOLE = 20;

interface Point { name: string; intensity: number; tflops: number; pct: number; color: string; hollow?: boolean; lines: string[]; pick?: () => void; on?: boolean }

export function Roofline({ rows, roofs }: { rows: OperatorRow[]; roofs: Roofs | null }) {
  const selection = useSelection();
  const drawn = useMemo(() => rows.filter((row) => row.intensity && row.tflops), [rows]);
  if (!drawn.length) return <p class="about">No operator in this profile has both FLOP and bytes, so there is nothing to draw.</p>;
  const points = drawn.map((row): Point => ({
    name: row.op,
    intensity: row.intensity as number,
    tflops: row.tflops as number,
    pct: row.pct,
    color: categoryColor(row.category),
    lines: [
      row.op, axesText(row.axes),
      `${rate(row.tflops)} TFLOP/s · ${rate(row.tbps)} TB/s · ${number(row.intensity)} FLOP/byte`,
      `${us(row.time_us)} per call, bound ${us(row.bound_us)} (${row.limiter ?? "unknown"}), S ${percent(row.efficiency_pct)}`,
      `${counted(row.calls, "call")} · ${percent(row.pct)} of GPU time`,
    ],
    pick: () => toggle({ operator: row.op, shape: axesText(row.axes) }),
    on: row.op === selection.operator && (selection.shape === null || selection.shape === axesText(row.axes)),
  }));
  const families = [...new Map(drawn.map((row) => [categoryColor(row.category), familyOf(row.category)])).entries()];
  const keys = families.map(([color, name]): Key => ({ color, name }));
  return <Points points={points} roofs={roofs} keys={keys} of="of GPU time" label={`Roofline of ${points.length} operators${roofs ? ` on ${roofs.title}` : ""}; the operator table has the same figures as text`} />;
}

export interface SuitePoint { operator: string; intensity: number; flop: number; importance_pct: number; sol_us: number | null; time_us: number | null; who: string }

/** Every operator's middle shape: where the roof lets it be (hollow), and where it was measured (filled). */
export function SuiteRoofline({ rows, roofs }: { rows: SuitePoint[]; roofs: Roofs }) {
  const points = rows.filter((row) => row.flop > 0).flatMap((row): Point[] => {
    const at = (time: number | null, hollow: boolean, what: string): Point[] => (time ? [{
      name: row.operator, intensity: row.intensity, tflops: row.flop / time / 1e6, pct: row.importance_pct, hollow, color: SIDES[hollow ? 0 : 1] as string,
      lines: [row.operator, `${what}: ${us(time)}, ${number(row.flop / time / 1e6)} TFLOP/s at ${number(row.intensity)} FLOP/byte`, `importance ${percent(row.importance_pct)}`],
    }] : []);
    return [...at(row.sol_us, true, `bound on ${roofs.name}`), ...at(row.time_us, false, row.who)];
  });
  const keys = [{ name: "limit of the hardware", color: SIDES[0] as string, hollow: true }, ...(points.some((one) => !one.hollow) ? [{ name: "measured", color: SIDES[1] as string }] : [])];
  return <Points points={points} roofs={roofs} keys={keys} of="importance" label={`Roofline of the suite's operators on ${roofs.title}; the table above has the same figures as text`} />;
}

interface Plot { points: Point[]; roofs: Roofs | null; keys: Key[]; of: string; label: string }

function Points({ points, roofs, keys, of, label }: Plot) {
  const whole = Math.max(WHOLE, ...points.map((point) => point.pct));
  const radius = (pct: number) => Math.max(SMALLEST, LARGEST * Math.sqrt(pct / whole));
  // Small points over large ones.
  const ordered = [...points].sort((a, b) => b.pct - a.pct);
  const draw = (frame: Frame) => {
    const { ink, narrow } = frame;
    const box = boxOf(frame, 58, narrow ? 14 : 118, narrow ? 34 : 52, 46);
    const [low, high] = decades([...points.map((point) => point.intensity), ...ridges(roofs)], 0.01, 1000);
    const least = Math.max(LEAST, Math.min(...points.map((point) => point.tflops)) / 2);
    const most = Math.max(...points.map((point) => point.tflops), ...(roofs ? peaksOf(roofs).map(([, peak]) => peak) : []));
    const x = log(low, high, [box.left, box.right]);
    const y = log(10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most * 1.05)), [box.bottom, box.top]);
    return (
      <>
        <Keys keys={keys} x={box.left} y={narrow ? 14 : 28} ink={ink} room={frame.width - box.left - (narrow ? 8 : 300)} />
        {!narrow && <Sizes whole={whole} radius={radius} right={frame.width - 40} of={of} ink={ink} />}
        <XAxis scale={x} box={box} ink={ink} title="FLOP per byte" lines />
        <YAxis scale={y} box={box} ink={ink} title="TFLOP/s" />
        {roofs && <RoofLines roofs={roofs} x={x} y={y} box={box} ink={ink} narrow={narrow} />}
        {ordered.map((point, at) => (
          <circle key={at} class={point.pick ? "pick" : undefined} cx={x(point.intensity)} cy={y(point.tflops)} r={radius(point.pct)} fill={point.color} fill-opacity={point.hollow ? 0 : 0.78} stroke={point.on ? ink.text : point.hollow ? point.color : ink.surface} stroke-width={point.on ? 3 : point.hollow ? 2 : 1} onClick={point.pick} {...mark(...point.lines)} />
        ))}
        <Names points={ordered} x={x} y={y} radius={radius} box={box} ink={ink} most={narrow ? 4 : NAMED} roofs={narrow && roofs ? peakLabels(roofs, y, true) : []} />
      </>
    );
  };
  return <Chart label={label} height={448} draw={draw} />;
}

/** What the area of a point means. */
function Sizes({ whole, radius, right, of, ink }: { whole: number; radius: (pct: number) => number; right: number; of: string; ink: Ink }) {
  const shown = [1, whole > 30 ? 10 : 5, whole > 30 ? 50 : 20].filter((pct) => pct <= whole);
  const widths = shown.map((pct) => 2 * radius(pct) + 12 + widthOf(`${pct} %`, 11));
  let at = right - widthOf(of, 11) - widths.reduce((sum, width) => sum + width, 0);
  return (
    <g>
      {shown.map((pct, index) => {
        const size = radius(pct);
        const middle = at + size;
        at += widths[index] ?? 0;
        return <g key={pct}><circle cx={middle} cy={24} r={size} fill="none" stroke={ink.faint} /><text x={middle + size + 4} y={28} fill={ink.faint}>{`${pct} %`}</text></g>;
      })}
      <text x={at} y={28} fill={ink.faint}>{of}</text>
    </g>
  );
}

/** Names of the points that matter most, where they do not cover each other. */
function Names({ points, x, y, radius, box, ink, most, roofs }: { points: Point[]; x: Scale; y: Scale; radius: (pct: number) => number; box: Box; ink: Ink; most: number; /** Names of roofs inside of the box. */ roofs: PeakLabel[] }) {
  const taken = roofs.map(({ text, base }): [number, number, number, number] => [box.right - 2 - widthOf(text, 11), base + 2, box.right, base - 13]);
  const named = new Set<string>();
  const found = points.flatMap((point) => {
    const text = shorten(point.name.replace(/^aten::/, ""), 26);
    if (named.size >= most || (named.has(text) && !point.on)) return [];
    const [cx, cy, size, width] = [x(point.intensity), y(point.tflops), radius(point.pct), widthOf(text, 11)];
    const places: [number, number][] = [[cx + size + 4, cy + 4], [cx - size - 4 - width, cy + 4], [cx - width / 2, cy - size - 5], [cx - width / 2, cy + size + 13]];
    const place = places.find(([left, base]) => left >= box.left + 2 && left + width <= box.right && base - 11 >= box.top && base <= box.bottom - 2 && taken.every(([l, b, r, t]) => left > r + 3 || left + width < l - 3 || base - 11 > b + 1 || base < t - 1));
    if (!place) return [];
    taken.push([place[0], place[1], place[0] + width, place[1] - 11]);
    named.add(text);
    return [<text key={taken.length} x={place[0]} y={place[1]} fill={ink.text} pointer-events="none" paint-order="stroke" stroke={ink.surface} stroke-width="3" stroke-linejoin="round">{text}</text>];
  });
  return <g>{found}</g>;
}

/** Whole powers of ten around the values, and at least from `low` to `high`. */
function decades(values: number[], low: number, high: number): [number, number] {
  return [10 ** Math.floor(Math.log10(Math.min(low, ...values))), 10 ** Math.ceil(Math.log10(Math.max(high, ...values.map((value) => value * ROOM))))];
}

const peaksOf = (roofs: Roofs): [string, number][] => Object.entries(roofs.peaks_tflops).filter(([pipe]) => PIPES.includes(pipe)).sort((a, b) => b[1] - a[1]);

/** Where each roof turns flat, in FLOP per byte. */
const ridges = (roofs: Roofs | null): number[] => (roofs?.hbm_tbps ? peaksOf(roofs).map(([, peak]) => peak / (roofs.hbm_tbps as number)) : []);

interface PeakLabel { pipe: string; text: string; base: number }

/** Names of the flat roofs; those of like peaks stand one below the other. */
function peakLabels(roofs: Roofs, y: Scale, narrow: boolean): PeakLabel[] {
  let above = -Infinity;
  return peaksOf(roofs).map(([pipe, peak]) => {
    above = Math.max(narrow ? y(peak) - 4 : y(peak) + 4, above + 12);
    return { pipe, text: `${narrow ? pipe.replace(/^\w+\./, "") : pipe} ${number(peak)}`, base: above };
  });
}

interface RoofProps { roofs: Roofs; x: Scale; y: Scale; box: Box; ink: Ink; narrow: boolean }

/** Slopes of the memories up to the highest peak, and a flat line for each peak. */
function RoofLines({ roofs, x, y, box, ink, narrow }: RoofProps) {
  const peaks = peaksOf(roofs);
  const highest = Math.max(...peaks.map(([, peak]) => peak));
  const slopes = ([["HBM", roofs.hbm_tbps], ["L2", roofs.l2_tbps], ["L1", roofs.l1_tbps]] as const).filter((one): one is [typeof one[0], number] => one[1] !== null);
  const steepest = Math.max(0, ...slopes.map(([, tbps]) => tbps));
  const [low, high] = x.domain;
  const labels = new Map(peakLabels(roofs, y, narrow).map((label) => [label.pipe, label]));
  return (
    <g pointer-events="none">
      {slopes.map(([memory, tbps]) => {
        const start = Math.max(low, y.domain[0] / tbps);
        const [x1, y1, x2, y2] = [x(start), y(start * tbps), x(highest / tbps), y(highest)];
        const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
        const at = memory === "HBM" ? 0.12 : 0.3;
        return (
          <g key={memory}>
            <line x1={x1} y1={y1} x2={x2} y2={y2} stroke={ink.faint} stroke-width={memory === "HBM" ? 2 : 1} stroke-dasharray={memory === "HBM" ? undefined : "5 4"} />
            <text transform={`translate(${x1 + at * (x2 - x1)} ${y1 + at * (y2 - y1) - 5}) rotate(${angle})`} fill={ink.faint}>{`${memory} ${number(tbps)} TB/s`}</text>
          </g>
        );
      })}
      {peaks.map(([pipe, peak]) => {
        const height = y(peak);
        return (
          <g key={pipe}>
            <line x1={x(steepest ? Math.max(low, peak / steepest) : low)} x2={x(high)} y1={height} y2={height} stroke={ink.faint} stroke-width={pipe === "tensor.bf16" ? 2 : 1} stroke-dasharray={pipe === "tensor.bf16" ? undefined : "5 4"} />
            <text x={narrow ? box.right - 2 : box.right + 6} y={labels.get(pipe)?.base} text-anchor={narrow ? "end" : "start"} fill={ink.faint}>{labels.get(pipe)?.text}</text>
          </g>
        );
      })}
    </g>
  );
}
