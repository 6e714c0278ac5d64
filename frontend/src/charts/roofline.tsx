// The roofline: FLOP/s against FLOP per byte, both logarithmic, under the roofs of the GPU.
import { useCallback } from "preact/hooks";
import { axisOf, Chart, gridOf, tip, tooltipOf, type Ink, type Option } from "../chart";
import { categoryColor, SIDES } from "../colors";
import { counted, axesText, number, percent, printed, us } from "../format";
import type { OperatorRow, Roofs } from "../types";

const LEAST = 1e-3;
/** Room right of a point, so that it does not lie on the names of the roofs. */
const ROOM = 1.3;
const PIPES = ["tensor.bf16", "tensor.fp8", "tensor.fp4", "vector.fp32"];

interface Point { intensity: number; tflops: number; size: number; color: string; hollow?: boolean; lines: string[] }

export function Roofline({ rows, roofs }: { rows: OperatorRow[]; roofs: Roofs | null }) {
  const drawn = rows.filter((row) => row.intensity && row.tflops);
  const largest = Math.max(...drawn.map((row) => row.total_us));
  const points = drawn.map((row): Point => ({
    intensity: row.intensity as number,
    tflops: row.tflops as number,
    size: row.total_us / largest,
    color: categoryColor(row.category),
    lines: [
      row.op, axesText(row.axes),
      `${number(row.tflops)} TFLOP/s · ${number(row.tbps)} TB/s · ${number(row.intensity)} FLOP/byte`,
      `${us(row.time_us)} per call, bound ${us(row.bound_us)} (${row.limiter ?? "unknown"}), S ${percent(row.efficiency_pct)}`,
      `${counted(row.calls, "call")} · ${percent(row.pct)} of GPU time`,
    ],
  }));
  if (!points.length) return <p class="about">No operator in this profile has both FLOP and bytes, so there is nothing to draw.</p>;
  return <Points points={points} roofs={roofs} label={`Roofline of ${points.length} operators${roofs ? ` on ${roofs.title}` : ""}; the operator table has the same figures as text`} />;
}

export interface SuitePoint { operator: string; intensity: number; flop: number; importance_pct: number; sol_us: number | null; time_us: number | null; who: string }

/** Every operator's middle shape: where the roof lets it be (hollow), and where it was measured (filled). */
export function SuiteRoofline({ rows, roofs }: { rows: SuitePoint[]; roofs: Roofs }) {
  const largest = Math.max(...rows.map((row) => row.importance_pct));
  const points = rows.filter((row) => row.flop > 0).flatMap((row): Point[] => {
    const at = (time: number | null, hollow: boolean, what: string): Point[] => (time ? [{
      intensity: row.intensity, tflops: row.flop / time / 1e6, size: row.importance_pct / largest, hollow, color: SIDES[hollow ? 0 : 1] as string,
      lines: [row.operator, `${what}: ${printed(time)}, ${number(row.flop / time / 1e6)} TFLOP/s at ${number(row.intensity)} FLOP/byte`, `importance ${percent(row.importance_pct)}`],
    }] : []);
    return [...at(row.sol_us, true, `bound on ${roofs.name}`), ...at(row.time_us, false, row.who)];
  });
  return <Points points={points} roofs={roofs} label={`Roofline of the suite's operators on ${roofs.title}; the table below has the same figures as text`} />;
}

function Points({ points, roofs, label }: { points: Point[]; roofs: Roofs | null; label: string }) {
  const option = useCallback(
    (ink: Ink, narrow: boolean): Option => {
      const [low, high] = decades([...points.map((point) => point.intensity), ...ridges(roofs)], 0.01, 1000);
      const least = Math.max(LEAST, Math.min(...points.map((point) => point.tflops)) / 2);
      return {
        tooltip: { ...tooltipOf(ink), formatter: (params: { data?: { lines?: string[] } }) => (params.data?.lines ? tip(...params.data.lines) : "") },
        grid: gridOf(82, narrow ? 28 : 130, 16, 46),
        xAxis: { type: "log", name: "FLOP per byte", nameLocation: "middle", nameGap: 28, min: low, max: high, ...axisOf(ink) },
        yAxis: { type: "log", name: "TFLOP/s", nameLocation: "middle", nameGap: 60, min: 10 ** Math.floor(Math.log10(least)), ...axisOf(ink) },
        series: [
          ...roofLines(roofs, low, high, ink, narrow),
          {
            type: "scatter",
            name: "operators",
            symbolSize: (_: unknown, params: { data: { size: number } }) => 7 + 33 * Math.sqrt(params.data.size),
            data: points.map((point) => ({ value: [point.intensity, point.tflops], size: point.size, lines: point.lines, itemStyle: point.hollow ? { color: "transparent", borderColor: point.color, borderWidth: 2 } : { color: point.color, opacity: 0.75, borderColor: ink.surface } })),
          },
        ],
      };
    },
    [points, roofs],
  );
  return <Chart label={label} height={430} option={option} />;
}

/** Whole powers of ten around the values, and at least from `low` to `high`. */
function decades(values: number[], low: number, high: number): [number, number] {
  return [10 ** Math.floor(Math.log10(Math.min(low, ...values))), 10 ** Math.ceil(Math.log10(Math.max(high, ...values.map((value) => value * ROOM))))];
}

const peaksOf = (roofs: Roofs): [string, number][] => Object.entries(roofs.peaks_tflops).filter(([pipe]) => PIPES.includes(pipe));

/** Where each roof turns flat, in FLOP per byte. */
const ridges = (roofs: Roofs | null): number[] => (roofs?.hbm_tbps ? peaksOf(roofs).map(([, peak]) => peak / (roofs.hbm_tbps as number)) : []);

/** Memory roof up to each peak, then flat: one line per matrix pipe, and one for the vector unit. */
function roofLines(roofs: Roofs | null, low: number, high: number, ink: Ink, narrow: boolean): Option[] {
  if (!roofs || roofs.hbm_tbps === null) return [];
  const slope = roofs.hbm_tbps;
  const peaks = peaksOf(roofs);
  peaks.sort((a, b) => b[1] - a[1]);
  return peaks.map(([pipe, peak], at) => ({
    type: "line",
    name: pipe,
    showSymbol: false,
    silent: true,
    lineStyle: { color: ink.faint, width: pipe === "tensor.bf16" ? 2 : 1, type: pipe === "tensor.bf16" ? "solid" : "dashed" },
    endLabel: narrow
      ? { show: true, formatter: `${pipe.replace(/^\w+\./, "")} ${number(peak)}`, color: ink.faint, fontSize: 10, align: "right", verticalAlign: "bottom", distance: 0, offset: [0, -2] }
      : { show: true, formatter: `${pipe} ${number(peak)}`, color: ink.faint, fontSize: 11, distance: 6, verticalAlign: at === 0 ? "bottom" : "top" },
    data: [[low, low * slope], [peak / slope, peak], [high, peak]],
  }));
}
