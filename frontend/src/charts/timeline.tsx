// Steps along the time line: one bar per step, colored by phase, with the busy part filled.
import { useCallback, useMemo } from "preact/hooks";
import { axisOf, Chart, gridOf, tip, tooltipOf, type Ink, type Option } from "../chart";
import { phaseColor } from "../colors";
import { ms, number, percent } from "../format";
import type { TimelineStep } from "../types";

interface Api { value(dimension: number): number; coord(point: [number, number]): [number, number]; size(range: [number, number]): [number, number] }

/** Steps from which on one wants to look closer. */
const MANY = 30;

/** Steps to draw: cut ones not where they would take most of the axis, and nothing be seen of the others. */
export function drawnSteps(steps: TimelineStep[]): TimelineStep[] {
  const whole = steps.filter((step) => !step.cut);
  const length = (some: TimelineStep[]): number => some.reduce((sum, step) => sum + step.time_ms, 0);
  return whole.length > 1 && length(whole) < length(steps) / 2 ? whole : steps;
}

export function StepTimeline({ steps: all, span }: { steps: TimelineStep[]; span: number }) {
  const steps = useMemo(() => drawnSteps(all), [all]);
  const start = steps.length < all.length ? Math.min(...steps.map((step) => step.start_ms)) : 0;
  const end = steps.length < all.length ? Math.max(...steps.map((step) => step.start_ms + step.time_ms)) : span;
  const option = useCallback(
    (ink: Ink): Option => {
      const many = steps.length > MANY;
      const phases = [...new Set(steps.map((step) => step.phase ?? "unknown"))];
      return {
        tooltip: { ...tooltipOf(ink), formatter: (params: { data: { step: TimelineStep } }) => {
          const step = params.data.step;
          return tip(`${step.name} (step ${step.step}${step.cut ? ", cut" : ""})`, `${step.phase ?? "phase unknown"} · ${ms(step.time_ms)} · GPU busy ${percent((100 * step.busy_ms) / step.time_ms)}`, step.tokens !== null && `${number(step.tokens)} tokens, ${number(step.requests)} requests`);
        } },
        legend: { data: phases, top: 0, right: 8, textStyle: { color: ink.text }, itemWidth: 12, itemHeight: 12 },
        grid: gridOf(56, 24, 34, many ? 70 : 44),
        xAxis: { type: "value", min: start, max: end, name: "ms", nameLocation: "middle", nameGap: 22, ...axisOf(ink), axisLabel: { color: ink.faint, hideOverlap: true, formatter: (value: number) => number(value) }, splitLine: { show: false } },
        yAxis: { type: "value", name: "step ms", min: 0, ...axisOf(ink) },
        dataZoom: many ? [{ type: "slider", filterMode: "weakFilter", height: 18, bottom: 12, borderColor: ink.line, textStyle: { color: ink.faint }, labelFormatter: (value: number) => `${number(value)}` }, { type: "inside", filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }] : [],
        series: phases.map((phase) => ({
          name: phase,
          type: "custom",
          itemStyle: { color: phaseColor(phase === "unknown" ? null : phase) },
          renderItem: (_: unknown, api: Api) => {
            const [x, top] = api.coord([api.value(0), api.value(2)]);
            const [end] = api.coord([api.value(1), 0]);
            const [, base] = api.coord([0, 0]);
            const [, full] = api.coord([0, api.value(3)]);
            const width = Math.max(1, end - x - 1);
            const color = phaseColor(phase === "unknown" ? null : phase);
            return { type: "group", children: [
              { type: "rect", shape: { x, y: top, width, height: base - top }, style: { fill: color, opacity: 0.28 } },
              { type: "rect", shape: { x, y: full, width, height: base - full }, style: { fill: color } },
            ] };
          },
          encode: { x: [0, 1], y: 2 },
          data: steps.filter((step) => (step.phase ?? "unknown") === phase).map((step) => ({ value: [step.start_ms, step.start_ms + step.time_ms, step.time_ms, step.busy_ms], step })),
        })),
      };
    },
    [steps, start, end],
  );
  return <Chart label={`Timeline of ${steps.length} steps: height is the step's time, the solid part the time the GPU was busy`} height={250} option={option} />;
}
