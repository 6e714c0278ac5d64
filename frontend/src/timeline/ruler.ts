// Times along the top, in steps that people count in, and never two alike.

/** Pixels between two marks at least. */
const APART = 90;

/** The distance between marks: 1, 2 or 5 of a power of ten. */
export function stepOf(ns: number, width: number): number {
  const least = (ns * APART) / Math.max(1, width);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least) ?? 10 * power;
}

const UNITS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** A time with as many decimals as marks `step` apart need. */
export function exact(ns: number, step: number): string {
  const [size, unit] = UNITS.find(([one]) => Math.abs(ns) >= one || step >= one) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  const [whole, part] = (ns / size).toFixed(Math.min(9, decimals)).split(".");
  return `${(whole as string).replace(/\B(?=(\d{3})+$)/g, ",")}${part ? `.${part.replace(/(\d{3})(?=\d)/g, "$1\u2009")}` : ""} ${unit}`;
}

export interface Mark { at: number; text: string }

/** Marks between two times. */
export function marks(from: number, to: number, width: number): { marks: Mark[]; base: string | null } {
  const step = stepOf(to - from, width);
  // From where it is far from zero: times after a round one, which stands at the left.
  const round = step * 1000;
  const base = from / step > 2000 ? Math.floor(from / round) * round : 0;
  const found: Mark[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push({ at, text: base ? `+${exact(at - base, step)}` : exact(at, step) });
  return { marks: found, base: base ? exact(base, round) : null };
}
