// One unit for the times of a column, so that they can be compared without reading units.

export type Unit = "s" | "ms" | "µs" | "ns";

export const SIZE: Record<Unit, number> = { s: 1e9, ms: 1e6, µs: 1e3, ns: 1 };
const ORDER: Unit[] = ["ns", "µs", "ms", "s"];
/** Figures from this size on are hard to read: a larger unit is taken. */
const MOST = 100_000;

export interface TimeFormat { unit: Unit; decimals: number }

/** The unit and the decimals in which most of these times (in nanoseconds) can be read. */
export function timeFormat(times: (number | null | undefined)[]): TimeFormat {
  const sizes = times.flatMap((one) => (one ? [Math.abs(one)] : [])).filter(Number.isFinite).sort((a, b) => a - b);
  const middle = sizes[sizes.length >> 1] ?? 0;
  const most = sizes[sizes.length - 1] ?? 0;
  let at = 0;
  while (at < ORDER.length - 1 && (middle >= SIZE[ORDER[at + 1] as Unit] || most >= MOST * SIZE[ORDER[at] as Unit])) at += 1;
  const unit = ORDER[at] as Unit;
  const shown = middle / SIZE[unit];
  return { unit, decimals: unit === "ns" ? 0 : shown < 10 ? 3 : shown < 100 ? 2 : 1 };
}

/** A time (in nanoseconds) without its unit. What is not 0 is never written as 0. */
export function timeIn(ns: number, { unit, decimals }: TimeFormat): string {
  if (ns === 0) return "0";
  const value = Math.abs(ns) / SIZE[unit];
  const least = 10 ** -decimals;
  const sign = ns < 0 ? "−" : "";
  if (value < least / 2) return `${sign}<${least.toFixed(decimals)}`;
  const [whole, part] = value.toFixed(decimals).split(".");
  return `${sign}${(whole as string).replace(/\B(?=(\d{3})+$)/g, ",")}${part ? `.${part}` : ""}`;
}
