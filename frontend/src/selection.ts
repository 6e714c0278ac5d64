// What the reader chose: one kernel, role, operator, layer or step, and a range of time. All views of a page follow it, and it stands
// in the address, so that the back button undoes it and a link shows the same.
import { useEffect, useState } from "preact/hooks";
import { params, setParams } from "./params";

export interface Selection {
  kernel: string | null;
  role: string | null;
  /** The name of an operator, and of its shapes the one that was chosen. */
  operator: string | null;
  shape: string | null;
  layer: number | null;
  step: number | null;
  /** Nanoseconds from the origin of the time line. */
  range: [number, number] | null;
  /** The part of the time line in sight; null for what it begins with. */
  view: [number, number] | null;
}

export const NOTHING: Selection = { kernel: null, role: null, operator: null, shape: null, layer: null, step: null, range: null, view: null };

const listeners = new Set<() => void>();

const rangeOf = (text: string | null): [number, number] | null => {
  const [from, to] = /^\d{1,15}-\d{1,15}$/.test(text ?? "") ? (text as string).split("-").map(Number) as [number, number] : [0, 0];
  return to > from ? [from, to] : null;
};
const wholeOf = (text: string | null): number | null => (text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null);

function read(): Selection {
  const query = params();
  return { kernel: query.get("kernel"), role: query.get("role"), operator: query.get("operator"), shape: query.get("shape"), layer: wholeOf(query.get("layer")), step: wholeOf(query.get("step")), range: rangeOf(query.get("range")), view: rangeOf(query.get("view")) };
}

let now = read();

export const selected = (): Selection => now;

window.addEventListener("popstate", () => {
  now = read();
  for (const tell of listeners) tell();
});

/** Read the address again: another page has been opened. */
export function reread(): void {
  const next = read();
  if (JSON.stringify(next) === JSON.stringify(now)) return;
  now = next;
  for (const tell of listeners) tell();
}

const textOf = (value: Selection[keyof Selection]): string | null => (value === null ? null : Array.isArray(value) ? value.map(Math.round).join("-") : String(value));

/** Choose something else; `quiet` leaves no step for the back button. */
export function select(change: Partial<Selection>, quiet = false): void {
  const next = { ...now, ...change };
  if (JSON.stringify(next) === JSON.stringify(now)) return;
  now = next;
  setParams(Object.fromEntries(Object.entries(next).map(([name, value]) => [name, textOf(value as Selection[keyof Selection])])), quiet);
  for (const tell of listeners) tell();
}

/** Choose this, or nothing where it is chosen already. */
export function toggle(change: Partial<Omit<Selection, "range" | "view">>): void {
  const same = Object.entries(change).every(([name, value]) => now[name as keyof Selection] === value);
  select(same ? Object.fromEntries(Object.keys(change).map((name) => [name, null])) : change);
}

export function useSelection(): Selection {
  const [value, set] = useState(now);
  useEffect(() => {
    const tell = () => set(now);
    tell();
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return value;
}

/** Be told of changes outside of components. */
export function onSelection(tell: () => void): () => void {
  listeners.add(tell);
  return () => void listeners.delete(tell);
}
