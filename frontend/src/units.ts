// One unit for the times or sizes of a column, so that they can be compared without reading units.

export type Unit = "s" | "ms" | "µs" | "ns" | "TB" | "GB" | "MB" | "kB" | "B";

export const SIZE: Record<Unit, number> = { s: 1e9, ms: 1e6, µs: 1e3, ns: 1, TB: 1e12, GB: 1e9, MB: 1e6, kB: 1e3, B: 1 };
const TIMES: Unit[] = ["ns", "µs", "ms", "s"];
const SIZES: Unit[] = ["B", "kB", "MB", "GB", "TB"];
/** Figures from this size on are hard to read: a larger unit is taken. */
const MOST = 100_000;

export interface UnitFormat { unit: Unit; decimals: number; /** Whether there is any figure but 0. */ needed: boolean }

/** The unit and the decimals in which most of these figures (in the smallest unit) can be read. */
function formatOf(values: (number | null | undefined)[], units: Unit[]): UnitFormat {
  const sizes = values.flatMap((one) => (one ? [Math.abs(one)] : [])).filter(Number.isFinite).sort((a, b) => a - b);
  const middle = sizes[sizes.length >> 1] ?? 0;
  const most = sizes[sizes.length - 1] ?? 0;
  let at = 0;
  while (at < units.length - 1 && (middle >= SIZE[units[at + 1] as Unit] || most >= MOST * SIZE[units[at] as Unit])) at += 1;
  const unit = units[at] as Unit;
  const shown = middle / SIZE[unit];
  return { unit, decimals: at === 0 ? 0 : shown < 10 ? 3 : shown < 100 ? 2 : 1, needed: sizes.length > 0 };
}

/** For times in nanoseconds. */
export const timeFormat = (times: (number | null | undefined)[]): UnitFormat => formatOf(times, TIMES);

/** For sizes in bytes. */
export const sizeFormat = (sizes: (number | null | undefined)[]): UnitFormat => formatOf(sizes, SIZES);

/** A figure (in the smallest unit) without its unit. What is not 0 is never written as 0. */
export function inUnit(figure: number, { unit, decimals }: UnitFormat): string {
  if (figure === 0) return "0";
  const value = Math.abs(figure) / SIZE[unit];
  const least = 10 ** -decimals;
  const sign = figure < 0 ? "−" : "";
  if (value < least / 2) return `${sign}<${least.toFixed(decimals)}`;
  const [whole, part] = value.toFixed(decimals).split(".");
  return `${sign}${(whole as string).replace(/\B(?=(\d{3})+$)/g, ",")}${part ? `.${part}` : ""}`;
}
