// From one total to another, part by part; the bars add up.
import { useCallback } from "preact/hooks";
import { axisOf, Chart, tip, tooltipOf, type Ink, type Option } from "../chart";
import { BETTER, SIDES, WORSE } from "../colors";
import { ms, percent, shorten, signed } from "../format";

export interface WaterfallPart { name: string; delta_ms: number; note?: string }

interface Step { name: string; from: number; to: number; color: string; note: string }

export function Waterfall({ before, after, beforeName, afterName, parts, most = 14 }: { before: number; after: number; beforeName: string; afterName: string; parts: WaterfallPart[]; most?: number }) {
  const option = useCallback(
    (ink: Ink, narrow: boolean): Option => {
      const steps = fold(before, after, beforeName, afterName, parts, most);
      const width = narrow ? 14 : 28;
      return {
        tooltip: { ...tooltipOf(ink), trigger: "item", formatter: (params: { dataIndex: number }) => {
          const step = steps[params.dataIndex];
          return step ? tip(step.name, step.note) : "";
        } },
        grid: { left: narrow ? 110 : 210, right: 70, top: 8, bottom: 30 },
        xAxis: { type: "value", name: "ms", ...axisOf(ink) },
        yAxis: { type: "category", inverse: true, data: steps.map((step) => shorten(step.name, width)), ...axisOf(ink), splitLine: { show: false }, axisLabel: { color: ink.text, interval: 0 } },
        series: [
          { type: "bar", stack: "all", silent: true, itemStyle: { color: "transparent" }, data: steps.map((step) => Math.min(step.from, step.to)) },
          { type: "bar", stack: "all", barMaxWidth: 20, label: { show: true, position: "right", color: ink.text, formatter: (params: { dataIndex: number }) => label(steps[params.dataIndex]) }, data: steps.map((step) => ({ value: Math.abs(step.to - step.from), itemStyle: { color: step.color } })) },
        ],
      };
    },
    [before, after, parts, beforeName, afterName, most],
  );
  const rows = Math.min(parts.length, most) + 3;
  return <Chart label={`From ${beforeName}, ${ms(before)}, to ${afterName}, ${ms(after)}, part by part`} height={44 + rows * 27} option={option} />;
}

const label = (step: Step | undefined): string => (step ? (step.from === 0 ? ms(step.to) : signed(step.to - step.from, ms)) : "");

function fold(before: number, after: number, beforeName: string, afterName: string, parts: WaterfallPart[], most: number): Step[] {
  const ordered = [...parts].filter((part) => part.delta_ms !== 0).sort((a, b) => Math.abs(b.delta_ms) - Math.abs(a.delta_ms));
  const shown = ordered.slice(0, most);
  const rest = ordered.slice(most).reduce((sum, part) => sum + part.delta_ms, 0);
  const steps: Step[] = [{ name: beforeName, from: 0, to: before, color: SIDES[0] as string, note: ms(before) }];
  let at = before;
  const total = after - before;
  for (const part of [...shown, ...(rest ? [{ name: `${ordered.length - shown.length} smaller`, delta_ms: rest }] : [])]) {
    const note = "note" in part && part.note ? ` · ${part.note}` : "";
    steps.push({ name: part.name, from: at, to: at + part.delta_ms, color: part.delta_ms > 0 ? WORSE : BETTER, note: `${signed(part.delta_ms, ms)}${total ? ` · ${percent((100 * part.delta_ms) / total)} of the difference` : ""}${note}` });
    at += part.delta_ms;
  }
  steps.push({ name: afterName, from: 0, to: after, color: SIDES[1] as string, note: ms(after) });
  return steps;
}
