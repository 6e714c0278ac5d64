// A chart drawn by ECharts, with a text that says what it shows.
import type { EChartsCoreOption, EChartsType } from "echarts/core";
import { useEffect, useRef } from "preact/hooks";
import { useDark } from "./dark";

// ECharts measures text with this: a name that a canvas does not know ("inherit") gives wrong widths.
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

export type Option = Record<string, unknown>;

export interface Ink {
  text: string;
  faint: string;
  line: string;
  surface: string;
}

const LIGHT: Ink = { text: "#1d2129", faint: "#5b6370", line: "#dfe3e8", surface: "#ffffff" };
const DARK: Ink = { text: "#e6e9ee", faint: "#a3abb8", line: "#363c47", surface: "#1b1f27" };

/** The place of a node of a treemap, as it was laid out. */
export interface Area { width: number; height: number; borderWidth: number; isLeafRoot: boolean }

const ruler = document.createElement("canvas").getContext("2d");

/** How wide a text is in a chart. */
export function widthOf(text: string, size: number): number {
  if (!ruler) return 0.6 * size * text.length;
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

interface Laid { getModel(): { getSeriesByIndex(at: number): { getData(): { getItemLayout(at: number): Area | undefined } } } }

/** Lines of a tooltip as elements: text of a profile is never markup. */
export function tip(...lines: (string | null | undefined | false)[]): HTMLElement {
  const box = document.createElement("div");
  box.className = "tip";
  for (const line of lines) {
    if (!line) continue;
    const row = document.createElement("div");
    row.textContent = line;
    box.append(row);
  }
  return box;
}

const waiting = new Map<HTMLElement, () => void>();

/** How long to draw before the browser may answer to the reader again, in ms. */
const SLICE = 40;

function drawFor(time: number): void {
  const end = performance.now() + time;
  for (const [element, draw] of waiting) {
    waiting.delete(element);
    draw();
    if (performance.now() > end) break;
  }
  if (waiting.size) setTimeout(drawFor, 0, SLICE);
}

/** Draw what is in the window now, and the rest as soon as that can be seen: many at a time, since each frame in between costs more than a small chart. */
function inTurn(element: HTMLElement, inWindow: boolean, draw: () => void): void {
  if (inWindow) {
    draw();
    return;
  }
  if (!waiting.size) requestAnimationFrame(() => setTimeout(drawFor, 0, SLICE));
  waiting.set(element, draw);
}

/** Width of a chart on paper, in CSS pixels: within the margins of A4 and of Letter. */
const PAPER = 680;
const drawers = new Set<(printing: boolean) => void>();

// On paper all is dark on white, and as wide as the page: a chart that was drawn for the screen would make all else small.
window.addEventListener("beforeprint", () => {
  if (waiting.size) drawFor(Infinity);
  for (const draw of drawers) draw(true);
});
window.addEventListener("afterprint", () => {
  for (const draw of drawers) draw(false);
});

interface Props {
  label: string;
  height: number;
  /** `areaOf` tells the place of a node of a treemap while its label is written. */
  option: (ink: Ink, narrow: boolean, areaOf: (dataIndex: number) => Area | undefined) => Option;
  /** Width on paper, where not all of it. */
  paper?: number;
  watch?: unknown;
  onClick?: (params: { data: unknown; name: string }) => void;
}

export function Chart({ label, height, option, paper = PAPER, watch, onClick }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const dark = useDark();
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let onPaper = false;
    let chart: EChartsType | null = null;
    let gone = false;
    let drawn: boolean | null = null;
    // Asked once for all charts, before any is drawn: afterwards each question would lay out the page anew.
    const { top, bottom } = element.getBoundingClientRect();
    const inWindow = top < window.innerHeight && bottom > 0;
    let width = element.clientWidth;
    const areaOf = (at: number) => (chart as unknown as Laid | null)?.getModel().getSeriesByIndex(0).getData().getItemLayout(at);
    const draw = () => {
      const narrow = (onPaper ? paper : width) < 560;
      const ink = dark && !onPaper ? DARK : LIGHT;
      // What was drawn for another width leaves labels behind in a treemap.
      if (drawn !== null && drawn !== narrow) chart?.clear();
      drawn = narrow;
      chart?.setOption(
        {
          animation: false,
          textStyle: { fontFamily: FONT, color: ink.text },
          ...option(ink, narrow, areaOf),
        } as EChartsCoreOption,
        true,
      );
    };
    // Told once at the beginning as well, when the chart has just been drawn.
    const observer = new ResizeObserver(() => {
      if (onPaper || element.clientWidth === width) return;
      width = element.clientWidth;
      chart?.resize({ width });
      draw();
    });
    const turn = (printing: boolean) => {
      onPaper = printing;
      chart?.resize({ width: printing ? paper : width });
      draw();
    };
    drawers.add(turn);
    void import("./engine").then(({ init }) => {
      if (gone) return;
      inTurn(element, inWindow, () => {
        chart = init(element, null, { renderer: "svg", width, height });
        if (onClick) chart.on("click", (params) => onClick(params as never));
        draw();
        observer.observe(element);
      });
    });
    return () => {
      gone = true;
      waiting.delete(element);
      drawers.delete(turn);
      observer.disconnect();
      chart?.dispose();
    };
  }, [dark, option, watch, label, height, onClick]);
  return <div class="chart" ref={place} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

/** A grid whose margins are known to hold its labels: ECharts need not lay it out twice to find out. */
export const gridOf = (left: number, right: number, top: number, bottom: number): Option => ({ left, right, top, bottom, outerBoundsMode: "none" });

export function tooltipOf(ink: Ink): Option {
  return {
    backgroundColor: ink.surface,
    borderColor: ink.line,
    textStyle: { color: ink.text, fontSize: 12 },
    confine: true,
    extraCssText: "max-width: 480px; white-space: normal; overflow-wrap: anywhere;",
  };
}

export function axisOf(ink: Ink): Option {
  return {
    nameTextStyle: { color: ink.faint },
    axisLabel: { color: ink.faint, hideOverlap: true },
    axisLine: { lineStyle: { color: ink.line } },
    axisTick: { lineStyle: { color: ink.line } },
    splitLine: { lineStyle: { color: ink.line, opacity: 0.6 } },
  };
}
