// The roofline: achieved FLOP/s against FLOP per byte, both logarithmic, under the roofs of the GPU.
import { useCallback } from "preact/hooks";
import { axisOf, Chart, tip, tooltipOf, type Ink, type Option } from "../chart";
import { categoryColor } from "../colors";
import { axesText, number, percent, us } from "../format";
import type { OperatorRow, Roofs } from "../types";

const LEAST = 1e-3;

export function Roofline({ rows, roofs }: { rows: OperatorRow[]; roofs: Roofs | null }) {
  const points = rows.filter((row) => row.intensity && row.tflops);
  const option = useCallback(
    (ink: Ink, narrow: boolean): Option => {
      const low = Math.min(0.01, ...points.map((row) => row.intensity as number));
      const high = Math.max(1000, ...points.map((row) => row.intensity as number));
      const least = Math.max(LEAST, Math.min(...points.map((row) => row.tflops as number)) / 2);
      const largest = Math.max(...points.map((row) => row.total_us));
      return {
        tooltip: { ...tooltipOf(ink), formatter: (params: { data?: { row?: OperatorRow; roof?: string } }) => {
          const row = params.data?.row;
          if (!row) return params.data?.roof ? tip(params.data.roof) : "";
          return tip(row.op, axesText(row.axes), `${number(row.tflops)} TFLOP/s · ${number(row.tbps)} TB/s · ${number(row.intensity)} FLOP/byte`, `${us(row.time_us)} per call, bound ${us(row.bound_us)} (${row.limiter ?? "unknown"}), S ${percent(row.efficiency_pct)}`, `${number(row.calls)} calls · ${percent(row.pct)} of GPU time`);
        } },
        grid: { left: 62, right: narrow ? 16 : 130, top: 16, bottom: 46 },
        xAxis: { type: "log", name: "FLOP per byte", nameLocation: "middle", nameGap: 28, min: 10 ** Math.floor(Math.log10(low)), max: 10 ** Math.ceil(Math.log10(high)), ...axisOf(ink) },
        yAxis: { type: "log", name: "TFLOP/s", nameLocation: "middle", nameGap: 46, min: 10 ** Math.floor(Math.log10(least)), ...axisOf(ink) },
        series: [
          ...roofLines(roofs, low, high, ink, narrow),
          {
            type: "scatter",
            name: "operators",
            symbolSize: (_: unknown, params: { data: { row: OperatorRow } }) => 6 + 34 * Math.sqrt(params.data.row.total_us / largest),
            data: points.map((row) => ({ value: [row.intensity, row.tflops], row, itemStyle: { color: categoryColor(row.category), opacity: 0.75, borderColor: ink.surface } })),
          },
        ],
      };
    },
    [rows, roofs],
  );
  if (!points.length) return <p class="about">No operator of this profile has both FLOP and bytes, so there is no point to draw.</p>;
  return <Chart label={`Roofline of ${points.length} operators${roofs ? ` on ${roofs.title}` : ""}; the operator table has the same figures as text`} height={430} option={option} />;
}

/** Memory roof up to each peak, then flat: one line per matrix pipe, and one for the vector unit. */
function roofLines(roofs: Roofs | null, low: number, high: number, ink: Ink, narrow: boolean): Option[] {
  if (!roofs || roofs.hbm_tbps === null) return [];
  const slope = roofs.hbm_tbps;
  const peaks = Object.entries(roofs.peaks_tflops).filter(([pipe]) => ["tensor.bf16", "tensor.fp8", "tensor.fp4", "vector.fp32"].includes(pipe));
  peaks.sort((a, b) => b[1] - a[1]);
  return peaks.map(([pipe, peak], at) => ({
    type: "line",
    name: pipe,
    showSymbol: false,
    silent: true,
    lineStyle: { color: ink.faint, width: pipe === "tensor.bf16" ? 2 : 1, type: pipe === "tensor.bf16" ? "solid" : "dashed" },
    endLabel: { show: !narrow, formatter: `${pipe} ${number(peak)}`, color: ink.faint, fontSize: 11, distance: 6, verticalAlign: at === 0 ? "bottom" : "top" },
    data: [[10 ** Math.floor(Math.log10(low)), 10 ** Math.floor(Math.log10(low)) * slope], [peak / slope, peak], [10 ** Math.ceil(Math.log10(high)), peak]],
  }));
}
