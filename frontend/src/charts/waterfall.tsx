// From one total to another, part by part; the bars add up.
import { useCallback, useMemo } from "preact/hooks";
import { axisOf, Chart, gridOf, tip, tooltipOf, type Ink, type Option } from "../chart";
import { BETTER, SIDES, WORSE } from "../colors";
import { ms, number, percent, shorten, signed } from "../format";

export interface WaterfallPart { name: string; delta_ms: number; note?: string }

interface Step { name: string; from: number; to: number; color: string; note: string; total: boolean }

interface Props { before: number; after: number; beforeName: string; afterName: string; parts: WaterfallPart[]; most?: number }

/** Parts below this share of all that changed are drawn as one. */
const SMALL = 0.004;

export function Waterfall({ before, after, beforeName, afterName, parts, most = 14 }: Props) {
  const steps = useMemo(() => fold(before, after, beforeName, afterName, parts, most), [before, after, beforeName, afterName, parts, most]);
  const start = axisStart(steps);
  const option = useCallback(
    (ink: Ink, narrow: boolean): Option => ({
      tooltip: { ...tooltipOf(ink), trigger: "item", formatter: (params: { dataIndex: number }) => {
        const step = steps[params.dataIndex];
        return step ? tip(step.name, step.note) : "";
      } },
      grid: gridOf(roomFor(steps, narrow), 84, 8, 44),
      xAxis: { type: "value", min: start, name: "ms", nameLocation: "middle", nameGap: 26, ...axisOf(ink), axisLabel: { color: ink.faint, hideOverlap: true, formatter: (value: number) => number(value, 4) } },
      yAxis: { type: "category", inverse: true, data: steps.map((step) => step.name), ...axisOf(ink), splitLine: { show: false }, axisLabel: { color: ink.text, interval: 0, formatter: (name: string) => short(name, narrow) } },
      series: [
        { type: "bar", stack: "all", silent: true, itemStyle: { color: "transparent" }, data: steps.map((step) => (step.total ? start : Math.min(step.from, step.to))) },
        { type: "bar", stack: "all", barMaxWidth: 20, barMinHeight: 1, label: { show: true, position: "right", color: ink.text, formatter: (params: { dataIndex: number }) => label(steps[params.dataIndex]) }, data: steps.map((step) => ({ value: step.total ? step.to - start : Math.abs(step.to - step.from), itemStyle: { color: step.color } })) },
      ],
    }),
    [steps, start],
  );
  return (
    <>
      <Chart label={`From ${beforeName}, ${ms(before)}, to ${afterName}, ${ms(after)}, part by part`} height={56 + steps.length * 27} option={option} />
      {start > 0 && <p class="about">The axis starts at {ms(start)}, not at 0, to make the parts visible: compare the differences, not the lengths of the totals.</p>}
    </>
  );
}

const short = (name: string, narrow: boolean): string => shorten(name, narrow ? 16 : 34);

/** Width for the names of the parts. */
const roomFor = (steps: Step[], narrow: boolean): number => Math.max(narrow ? 112 : 220, ...steps.map((step) => 16 + 7.2 * short(step.name, narrow).length));

const label = (step: Step | undefined): string => (step ? (step.total ? ms(step.to) : signed(step.to - step.from, ms)) : "");

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
