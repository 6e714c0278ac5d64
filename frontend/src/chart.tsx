// A chart as SVG, as wide as its place, with a text that says what it shows. Marks with `data-tip` explain themselves under
// the pointer, and to the arrow keys.
import { render, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useDark } from "./dark";
import { pngOf } from "./picture";
import { fileNameOf } from "./take";
import { hideTip, showTip } from "./tip";

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

export interface Ink {
  text: string;
  faint: string;
  line: string;
  surface: string;
}

const LIGHT: Ink = { text: "#1d2129", faint: "#5b6370", line: "#dfe3e8", surface: "#ffffff" };
const DARK: Ink = { text: "#e6e9ee", faint: "#a3abb8", line: "#363c47", surface: "#1b1f27" };

/** What a chart is drawn for. */
export interface Frame { width: number; height: number; ink: Ink; narrow: boolean }

const ruler = document.createElement("canvas").getContext("2d");

/** How wide a text is in a chart. */
export function widthOf(text: string, size: number): number {
  if (!ruler) return 0.6 * size * text.length;
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** What a mark says: one line each. A text of a profile becomes an attribute, never markup. */
export const mark = (...lines: (string | null | undefined | false)[]): { "data-tip": string } => ({ "data-tip": lines.filter(Boolean).join("\n") });

/** Width of a chart on paper, in CSS pixels: within the margins of A4 and of Letter. */
const PAPER = 680;
const drawers = new Set<(printing: boolean) => void>();

// On paper all is dark on white, and as wide as the page: a chart that was drawn for the screen would make all else small.
for (const printing of [true, false]) window.addEventListener(printing ? "beforeprint" : "afterprint", () => {
  for (const draw of drawers) draw(printing);
});

interface Props {
  label: string;
  height: number;
  draw: (frame: Frame) => ComponentChildren;
  /** Width on paper, where not all of it. */
  paper?: number;
}

export function Chart({ label, height, draw, paper = PAPER }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const dark = useDark();
  const paint = useRef<(printing: boolean) => void>(() => undefined);
  paint.current = (printing) => {
    const element = place.current;
    const width = printing ? paper : (element?.clientWidth ?? 0);
    if (!element || width < 1) return;
    const ink = dark && !printing ? DARK : LIGHT;
    // A root of its own: on paper it has to be drawn at once, not when its turn comes.
    render(<svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} font-family={FONT} font-size="11" data-surface={ink.surface}>{draw({ width, height, ink, narrow: width < 560 })}</svg>, element);
  };
  useLayoutEffect(() => paint.current(false));
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let width = element.clientWidth;
    let onPaper = false;
    const observer = new ResizeObserver(() => {
      if (onPaper || element.clientWidth === width) return;
      width = element.clientWidth;
      paint.current(false);
    });
    const turn = (printing: boolean) => {
      onPaper = printing;
      paint.current(printing);
    };
    drawers.add(turn);
    observer.observe(element);
    const leave = explain(element);
    return () => {
      drawers.delete(turn);
      observer.disconnect();
      leave();
      render(null, element);
    };
  }, []);
  return (
    <div class="plot">
      <button type="button" class="png" aria-label={`${label} as PNG`} onClick={() => {
        const svg = place.current?.querySelector("svg");
        if (svg) void pngOf(svg, fileNameOf(label, "png"));
      }}>PNG</button>
      <div class="chart" ref={place} role="img" aria-label={label} tabIndex={0} style={{ height: `${height}px` }} />
    </div>
  );
}

const MARKS = "[data-tip]";
const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Show what marks say under the pointer, and one after another with the arrow keys; Enter clicks. Returns how to stop. */
export function explain(element: HTMLElement): () => void {
  const off = new AbortController();
  const listen = { signal: off.signal };
  let at: Element | null = null;
  const hide = () => {
    at?.classList.remove("at");
    at = null;
    hideTip();
  };
  element.addEventListener("pointermove", (event) => {
    const found = (event.target as Element).closest(MARKS);
    if (found) showTip(found.getAttribute("data-tip") ?? "", event.clientX, event.clientY);
    else hide();
  }, listen);
  element.addEventListener("pointerleave", hide, listen);
  element.addEventListener("blur", hide, listen);
  element.addEventListener("keydown", (event) => {
    const marks = [...element.querySelectorAll(MARKS)];
    const step = STEPS[event.key];
    if (step !== undefined && marks.length) {
      event.preventDefault();
      const next = marks[((at ? marks.indexOf(at) : step > 0 ? -1 : 0) + step + marks.length) % marks.length] as Element;
      at?.classList.remove("at");
      at = next;
      next.classList.add("at");
      const { left, right, bottom } = next.getBoundingClientRect();
      showTip(next.getAttribute("data-tip") ?? "", (left + right) / 2, bottom);
    } else if (event.key === "Enter" && at) at.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else if (event.key === "Escape") hide();
  }, listen);
  return () => {
    off.abort();
    hide();
  };
}
