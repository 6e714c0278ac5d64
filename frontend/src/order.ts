// The order of the rows of a table, and which of them are in sight.

export type Key = string | number | null | undefined;

/** A text such that numbers in it sort as numbers. Plain comparisons of these are ten times as fast as those of a collator. */
const natural = (text: string): string => text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(15, "0"));

/** Rows in order; values are taken once each, rows that are alike keep theirs, and null goes last. */
export function sorted<Row>(rows: Row[], value: (row: Row) => Key, down: boolean): Row[] {
  const way = down ? -1 : 1;
  const keyed = rows.map((row, at) => ({ row, at, key: value(row) ?? null }));
  const known = keyed.filter((one) => one.key !== null);
  const unknown = keyed.filter((one) => one.key === null);
  const numbers = known.every((one) => typeof one.key === "number");
  const compared = known.map(({ row, at, key }) => ({ row, at, key: numbers ? (key as number) : natural(String(key)) }));
  compared.sort((a, b) => (a.key === b.key ? a.at - b.at : a.key < b.key ? -way : way));
  return [...compared, ...unknown].map((one) => one.row);
}

/** Rows that hold all words of a text. */
export function filtered<Row>(rows: Row[], text: string, search: (row: Row) => string): Row[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? rows.filter((row) => { const all = search(row).toLowerCase(); return words.every((word) => all.includes(word)); }) : rows;
}

/** Rows drawn above and below those in sight. */
const SPARE = 20;

export interface Window { first: number; end: number; above: number; below: number }

/** The rows to draw of `count`, and the room of those that are not, in pixels; heights that are not known are `usual`. */
export function windowOf(count: number, heights: ReadonlyMap<number, number>, usual: number, top: number, tall: number): Window {
  let [y, seen, last] = [0, -1, count];
  for (let at = 0; at < count; at += 1) {
    const end = y + (heights.get(at) ?? usual);
    if (seen < 0 && end > top) seen = at;
    if (y >= top + tall) {
      last = at;
      break;
    }
    y = end;
  }
  const first = Math.max(0, (seen < 0 ? count : seen) - SPARE);
  const end = Math.min(count, last + SPARE);
  const sum = (from: number, to: number) => {
    let all = (to - from) * usual;
    for (const [at, height] of heights) if (at >= from && at < to) all += height - usual;
    return all;
  };
  return { first, end, above: sum(0, first), below: sum(end, count) };
}
