// Step times of both runs: every step as a point along time, and how they spread.
import { useCallback } from "preact/hooks";
import { axisOf, Chart, gridOf, tip, tooltipOf, type Ink, type Option } from "../chart";
import { SIDES } from "../colors";
import { ms } from "../format";
import type { StepTime } from "../types";

export function StepTimes({ runs, labels }: { runs: StepTime[][]; labels: string[] }) {
  const option = useCallback(
    (ink: Ink): Option => ({
      tooltip: { ...tooltipOf(ink), formatter: (params: { seriesName: string; data: { step: StepTime } }) => tip(`${params.seriesName}: ${ms(params.data.step.time_ms)}`, `${params.data.step.phase ?? "phase unknown"}, at ${ms(params.data.step.start_ms)}`) },
      legend: { top: 0, right: 8, itemGap: 20, textStyle: { color: ink.text } },
      grid: gridOf(60, 20, 34, 44),
      xAxis: { type: "value", name: "ms since the first step", nameLocation: "middle", nameGap: 26, ...axisOf(ink) },
      yAxis: { type: "value", name: "step ms", min: 0, ...axisOf(ink) },
      series: runs.map((steps, at) => ({ type: "scatter", name: labels[at], symbol: at ? "diamond" : "circle", symbolSize: at ? 9 : 8, itemStyle: { color: SIDES[at], opacity: 0.8 }, data: steps.filter((step) => step.whole).map((step) => ({ value: [step.start_ms, step.time_ms], step })) })),
    }),
    [runs, labels],
  );
  return <Chart label={`Step times of ${labels.join(" and ")} along time`} height={260} option={option} />;
}

const BINS = 30;

export function Histogram({ runs, labels }: { runs: StepTime[][]; labels: string[] }) {
  const option = useCallback(
    (ink: Ink): Option => {
      const times = runs.map((steps) => steps.filter((step) => step.whole).map((step) => step.time_ms));
      const all = times.flat();
      const [low, high] = [Math.min(...all), Math.max(...all)];
      const width = (high - low) / BINS || 1;
      const count = (values: number[]) => {
        const bins = new Array<number>(BINS).fill(0);
        for (const value of values) {
          const at = Math.min(BINS - 1, Math.floor((value - low) / width));
          bins[at] = (bins[at] ?? 0) + 1 / Math.max(1, values.length);
        }
        return bins.map((share) => 100 * share);
      };
      return {
        tooltip: { ...tooltipOf(ink), trigger: "axis" },
        legend: { top: 0, right: 8, itemGap: 20, textStyle: { color: ink.text } },
        grid: gridOf(60, 20, 34, 44),
        xAxis: { type: "category", name: "step ms", nameLocation: "middle", nameGap: 26, data: Array.from({ length: BINS }, (_, at) => (low + at * width).toPrecision(3)), ...axisOf(ink) },
        yAxis: { type: "value", name: "% of steps", ...axisOf(ink) },
        series: times.map((values, at) => ({ type: "bar", name: labels[at], itemStyle: { color: SIDES[at], opacity: 0.75 }, barGap: "-100%", data: count(values) })),
      };
    },
    [runs, labels],
  );
  return <Chart label={`How the step times of ${labels.join(" and ")} spread`} height={220} option={option} />;
}
