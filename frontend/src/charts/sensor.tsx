// One sensor over the time of the steps, both runs overlaid.
import { useCallback } from "preact/hooks";
import { axisOf, Chart, gridOf, tip, tooltipOf, type Ink, type Option } from "../chart";
import { SIDES } from "../colors";
import { ms, number } from "../format";
import type { SensorLine } from "../types";

export function Sensor({ line, labels, unit }: { line: SensorLine; labels: string[]; unit: string }) {
  const option = useCallback(
    (ink: Ink): Option => ({
      tooltip: { ...tooltipOf(ink), formatter: (params: { seriesName: string; value: [number, number] }) => tip(`${params.seriesName}: ${number(params.value[1])} ${unit}`, `at ${ms(params.value[0])}`) },
      grid: gridOf(64, 18, 10, 26),
      xAxis: { type: "value", ...axisOf(ink), splitLine: { show: false } },
      yAxis: { type: "value", scale: true, ...axisOf(ink), axisLabel: { color: ink.faint, hideOverlap: true, formatter: (value: number) => number(value, 4) } },
      series: labels.map((label, side) => ({ type: "line", name: label, showSymbol: (line.values[side]?.length ?? 0) < 40, symbolSize: 4, itemStyle: { color: SIDES[side] }, lineStyle: { width: 1.5 }, data: (line.times_ms[side] ?? []).map((at, index) => [at, line.values[side]?.[index] ?? null]) })),
    }),
    [line, labels, unit],
  );
  return (
    <figure class="sensor">
      <figcaption>{line.name}{line.device === null ? "" : ` (GPU ${line.device})`} <span class="faint">{unit}</span></figcaption>
      <Chart label={`${line.name} in both runs`} height={150} paper={215} option={option} />
    </figure>
  );
}
