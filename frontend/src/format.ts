// Numbers as people read them. A missing value is a dash, never a zero.

export const NONE = "–";

/** Numbers with a minus sign before them, and not the hyphen that programs write; powers of ten stay as they are. */
export const withMinus = (text: string): string => text.replaceAll(/(^|[\s([×])-(?=\.?\d)/g, "$1−");

export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4) return withMinus(value.toExponential(1));
  // Not through the browser's own formats: loading them takes longer than drawing a page.
  if (size >= 100) return withMinus(value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ","));
  return withMinus(String(Number(value.toPrecision(digits))));
}

/** A rate in units that are large for it: what is tiny needs no power of ten. */
export const rate = (value: number | null | undefined): string => (value != null && value > 0 && value < 0.001 ? "<0.001" : number(value));

export function percent(value: number | null | undefined, digits = 1): string {
  return value === null || value === undefined || !Number.isFinite(value) ? NONE : `${value.toFixed(digits).replace(/^-(?=0(?:\.0*)?$)/, "").replace("-", "−")} %`;
}

/** A sentence whose figures are not parted from their units at the end of a line. */
export const unbroken = (text: string): string => text.replace(/(\d) (?=(?:ms|µs|s|%)(?![a-z]))/g, "$1\u00a0");

/** `1 step`, `2 steps`. */
export const counted = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A time of any size, from nanoseconds, with its unit. */
export function time(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return NONE;
  const size = Math.abs(ns);
  if (size >= 1e9) return `${digits(ns / 1e9)} s`;
  if (size >= 1e6) return `${digits(ns / 1e6)} ms`;
  if (size >= 1e3) return `${digits(ns / 1e3)} µs`;
  return ns === 0 ? "0" : `${number(ns)} ns`;
}

/** Four digits, zeros at the end as well, so that a column of times stands even. */
const digits = (value: number): string => (Math.abs(value) >= 100 ? number(value) : withMinus(value.toPrecision(4)));

export const ms = (value: number | null | undefined): string => time(value == null ? value : value * 1e6);
export const us = (value: number | null | undefined): string => time(value == null ? value : value * 1e3);

export function signed(value: number | null | undefined, show: (v: number) => string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return value > 0 ? `+${show(value)}` : value < 0 ? `−${show(-value)}` : show(0);
}

/** A ratio to two digits that matter, and never 0 for what is not. */
export function times(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return `${value >= 0.1 && value < 100 ? value.toFixed(2) : number(value, 2)}×`;
}

/** FLOP per byte as the public suite prints it. */
export const printedIntensity = (value: number): string => (value >= 1000 ? `${(value / 1000).toFixed(1)}k` : value.toFixed(1));

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let size = value;
  while (Math.abs(size) >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${number(size)} ${units[at]}`;
}

/** The middle of a long name left out, so that both ends stay readable. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

/** Bytes as people read them; sizes of a shape as they are. */
function axisText(name: string, value: unknown): string {
  if (typeof value === "number" && /(^|_)bytes$/.test(name)) return bytes(value).replace(" ", "\u00a0");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function axesText(axes: Record<string, unknown> | null | undefined): string {
  if (!axes) return NONE;
  return Object.entries(axes)
    .map(([name, value]) => `${name}=${axisText(name, value)}`)
    .join(" ");
}

export function fileName(path: string): string {
  const parts = path.split("/");
  return parts[parts.length - 1] || path;
}
