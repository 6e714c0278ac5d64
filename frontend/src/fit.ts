// Which columns of a table have room, measured once: columns that can be spared leave until the others fit.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Sparable { id: string; spare?: number }

interface Fit<Column> { place: RefObject<HTMLDivElement>; columns: Column[]; whole: boolean; /** Even so wider than its place. */ wide: boolean; setWhole: (whole: boolean) => void }

const NOTHING: ReadonlySet<string> = new Set();
/** A change of width below this is a scroll bar that comes or goes: measuring again then could go on forever. */
const SCROLL_BAR = 24;

/** The columns to show in `place`; `kept` is never spared, and `whole` shows all of them. */
export function useFit<Column extends Sparable>(all: Column[], rows: unknown, kept: string | undefined): Fit<Column> {
  const place = useRef<HTMLDivElement>(null);
  const [whole, setWhole] = useState(false);
  const [wide, setWide] = useState(false);
  const measured = useRef(0);
  const ids = all.map((one) => one.id).join("\n");
  const [fit, setFit] = useState({ ids, left: NOTHING });
  // Other columns have to be measured anew.
  const left = fit.ids === ids ? fit.left : NOTHING;
  const shown = whole ? all : all.filter((one) => !left.has(one.id) || one.id === kept);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element || whole) return;
    measured.current = element.clientWidth;
    if (element.scrollWidth <= element.clientWidth + 1) return setWide(false);
    // A table that is too wide has every column at its least width.
    const heads = [...(element.querySelector("tr")?.cells ?? [])].map((one) => one.offsetWidth);
    const leaving = leave(shown, heads, element.clientWidth, kept);
    setWide(!leaving.length);
    if (leaving.length) setFit({ ids, left: new Set([...left, ...leaving]) });
  }, [ids, rows, left, whole, kept]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (Math.abs(element.clientWidth - measured.current) >= SCROLL_BAR) setFit((before) => ({ ...before, left: new Set() }));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { place, columns: shown, whole, wide, setWhole };
}

function leave(columns: Sparable[], widths: number[], room: number, kept: string | undefined): string[] {
  let sum = widths.reduce((total, width) => total + width, 0);
  const order = columns.map((column, at) => ({ id: column.id, spare: column.spare ?? 0, width: widths[at] ?? 0 }));
  const going = order.filter((one) => one.spare && one.id !== kept).sort((a, b) => b.spare - a.spare);
  const gone: string[] = [];
  for (const one of going) {
    if (sum <= room) break;
    sum -= one.width;
    gone.push(one.id);
  }
  return gone;
}
