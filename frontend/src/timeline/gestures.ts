// Wheel, drag, pinch and keys move the picture; a drag with Shift, or along the ruler, chooses a range.
import { Drawing, OVERVIEW, type Hit } from "./drawing";

export interface Told {
  range: (range: [number, number] | null) => void;
  click: (hit: Hit | null) => void;
  hover: (hit: Hit | null, x: number, y: number) => void;
}

/** Pixels that a pointer may move and still click. */
const STILL = 4;
const KEYS: Record<string, [zoom: number, pan: number]> = { w: [-1, 0], s: [1, 0], a: [0, -1], d: [0, 1], ArrowLeft: [0, -1], ArrowRight: [0, 1], "+": [-1, 0], "=": [-1, 0], "-": [1, 0] };

const spot = (event: MouseEvent, element: HTMLElement): [number, number] => {
  const { left, top } = element.getBoundingClientRect();
  return [event.clientX - left, event.clientY - top];
};

/** Follow the reader; returns how to stop. */
export function follow(drawing: Drawing, area: HTMLElement, told: Told): () => void {
  const off = new AbortController();
  const on = <K extends keyof HTMLElementEventMap>(element: HTMLElement, name: K, handle: (event: HTMLElementEventMap[K]) => void, passive = true) => element.addEventListener(name, handle, { signal: off.signal, passive });
  const stopKeys = followKeys(drawing, area, told, off.signal);
  followPointers(drawing, area, told, on);
  followOverview(drawing, on, told);
  const wheel = (event: WheelEvent) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    // A page that is scrolled past must not be caught: the wheel zooms once the time line has been clicked on, or with Ctrl.
    if (!sideways && !event.ctrlKey && !event.metaKey && !area.contains(document.activeElement)) return;
    event.preventDefault();
    const unit = event.deltaMode ? 16 : 1;
    if (sideways) drawing.pan((event.deltaX || event.deltaY) * unit);
    else drawing.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * unit)) * 0.0028), spot(event, drawing.body)[0]);
  };
  on(drawing.body, "wheel", wheel, false);
  on(drawing.head, "wheel", wheel, false);
  on(drawing.scroller, "scroll", () => drawing.invalidate());
  return () => {
    off.abort();
    stopKeys();
  };
}

/** Keys move as long as they are held. */
function followKeys(drawing: Drawing, area: HTMLElement, told: Told, signal: AbortSignal): () => void {
  const held = new Set<string>();
  let [frame, last] = [0, 0];
  const move = (now: number) => {
    const seconds = Math.min(0.05, (now - last) / 1000);
    last = now;
    for (const key of held) {
      const [zoom, pan] = KEYS[key] as [number, number];
      if (zoom) drawing.zoom(Math.exp(zoom * seconds * 2.6), drawing.cursor === null ? drawing.gutter + drawing.plot / 2 : drawing.xOf(drawing.cursor));
      if (pan) drawing.pan(pan * seconds * drawing.plot * 0.9);
    }
    frame = held.size ? requestAnimationFrame(move) : 0;
  };
  const keyOf = (event: KeyboardEvent) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).tagName === "INPUT") return;
    const key = keyOf(event);
    if (key in KEYS) {
      event.preventDefault();
      held.add(key);
      if (!frame) {
        last = performance.now() - 16;
        frame = requestAnimationFrame(move);
      }
    } else if (key === "0" || key === "Home") drawing.show(...drawing.timeline.focus);
    else if (key === "f" && drawing.chosen) drawing.show(drawing.chosen.start - drawing.chosen.dur, drawing.chosen.start + 2 * drawing.chosen.dur);
    else if (key === "r") told.range([Math.max(0, drawing.from), Math.min(drawing.timeline.span_ns, drawing.to)]);
    else if (key === "Escape") {
      told.range(null);
      told.click(null);
    }
  }, { signal });
  const release = (event: KeyboardEvent) => held.delete(keyOf(event));
  window.addEventListener("keyup", release, { signal });
  window.addEventListener("blur", () => held.clear(), { signal });
  area.addEventListener("focusout", () => held.clear(), { signal });
  return () => cancelAnimationFrame(frame);
}

type On = <K extends keyof HTMLElementEventMap>(element: HTMLElement, name: K, handle: (event: HTMLElementEventMap[K]) => void, passive?: boolean) => void;

function followPointers(drawing: Drawing, area: HTMLElement, told: Told, on: On): void {
  const down = new Map<number, [number, number]>();
  let moved = 0;
  let begun: number | null = null;
  for (const canvas of [drawing.body, drawing.head]) {
    on(canvas, "pointerdown", (event) => {
      const [x, y] = spot(event, canvas);
      if (event.button !== 0 || (canvas === drawing.head && y < OVERVIEW)) return;
      area.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, [x, y]);
      moved = 0;
      begun = event.shiftKey || canvas === drawing.head ? drawing.timeAt(x) : null;
    });
    on(canvas, "pointermove", (event) => {
      const [x, y] = spot(event, canvas);
      const before = down.get(event.pointerId);
      if (!before) {
        drawing.cursor = x >= drawing.gutter ? drawing.timeAt(x) : null;
        drawing.invalidate();
        if (canvas === drawing.body) told.hover(drawing.hit(x, y), x, y);
        return;
      }
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      const others = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const other = others[0];
      if (other) {
        const [apart, now] = [Math.abs(before[0] - other[0]), Math.abs(x - other[0])];
        if (apart > 8 && now > 8) drawing.zoom(apart / now, other[0]);
      } else if (begun !== null) {
        const at = drawing.timeAt(x);
        drawing.range = [Math.max(0, Math.min(begun, at)), Math.min(drawing.timeline.span_ns, Math.max(begun, at))];
        drawing.invalidate();
      } else if (moved > STILL) {
        drawing.pan(before[0] - x);
        if (event.pointerType === "mouse") drawing.scroller.scrollTop += before[1] - y;
        told.hover(null, x, y);
      }
      down.set(event.pointerId, [x, y]);
    });
    on(canvas, "pointerup", (event) => {
      const [x, y] = spot(event, canvas);
      if (!down.delete(event.pointerId)) return;
      if (begun !== null) told.range(moved > STILL && drawing.range && drawing.range[1] > drawing.range[0] ? drawing.range : null);
      else if (moved <= STILL && canvas === drawing.body) told.click(drawing.hit(x, y));
      begun = null;
    });
    on(canvas, "pointercancel", (event) => void down.delete(event.pointerId));
  }
  on(drawing.body, "pointerleave", () => {
    drawing.cursor = null;
    drawing.invalidate();
    told.hover(null, 0, 0);
  });
  on(drawing.body, "dblclick", (event) => {
    const hit = drawing.hit(...spot(event, drawing.body));
    if (hit) drawing.show(hit.start - 0.25 * hit.dur, hit.start + 1.25 * hit.dur);
  });
}

/** The overview moves what is in sight to where it is pressed. */
function followOverview(drawing: Drawing, on: On, told: Told): void {
  let dragging = false;
  const center = (event: PointerEvent) => {
    const [x] = spot(event, drawing.head);
    const at = ((x - drawing.gutter) / drawing.plot) * drawing.timeline.span_ns;
    const half = (drawing.to - drawing.from) / 2;
    drawing.show(at - half, at + half);
  };
  on(drawing.head, "pointerdown", (event) => {
    if (spot(event, drawing.head)[1] >= OVERVIEW || event.button !== 0) return;
    dragging = true;
    drawing.head.setPointerCapture(event.pointerId);
    told.hover(null, 0, 0);
    center(event);
  });
  on(drawing.head, "pointermove", (event) => {
    if (dragging) center(event);
  });
  on(drawing.head, "pointerup", () => {
    dragging = false;
  });
}
