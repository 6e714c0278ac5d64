// Events as typed arrays: blocks of the library, inflated and put together again.
import type { EventBlock } from "../types";

/** The events of one lane in one block, in the order of starts. */
export interface LaneEvents {
  level: number;
  rows: number;
  start: Float64Array;
  dur: Float64Array;
  /** Sum of the durations of what was merged. */
  busy: Float64Array;
  count: Uint32Array;
  label: Uint32Array;
  /** One too large, and 0 where unknown; so are `step` and `wait`. */
  layer: Uint32Array;
  step: Uint32Array;
  wait: Float64Array;
  /** The latest end up to each row: where what is under way at a time begins. */
  reach: Float64Array;
}

export interface Decoded { from: number; to: number; lanes: Map<number, LaneEvents>; rows: number }

async function inflate(text: string): Promise<Uint8Array> {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A column of `rows` values, whose bytes lie in planes from `at` on. */
function column(bytes: Uint8Array, at: number, rows: number, width: number): Float64Array {
  const values = new Float64Array(rows);
  for (let plane = 0, scale = 1; plane < width; plane += 1, scale *= 256) {
    const first = at + plane * rows;
    for (let row = 0; row < rows; row += 1) values[row] = (values[row] as number) + (bytes[first + row] as number) * scale;
  }
  return values;
}

export async function decode(block: EventBlock): Promise<Decoded> {
  const bytes = await inflate(block.packed.data);
  const rows = block.parts.reduce((sum, part) => sum + part.rows, 0);
  const columns = new Map<string, Float64Array>();
  let at = 0;
  for (const [name, width] of block.packed.columns) {
    columns.set(name, column(bytes, at, rows, width));
    at += rows * width;
  }
  const lanes = new Map<number, LaneEvents>();
  let first = 0;
  for (const part of block.parts) {
    lanes.set(part.lane, laneOf(columns, first, part.rows, part.level));
    first += part.rows;
  }
  return { from: block.from_ns, to: block.to_ns, lanes, rows };
}

function laneOf(columns: Map<string, Float64Array>, first: number, rows: number, level: number): LaneEvents {
  const take = (name: string): Float64Array => columns.get(name)?.subarray(first, first + rows) ?? new Float64Array(rows);
  const whole = (name: string): Uint32Array => Uint32Array.from(take(name));
  const start = take("start");
  const dur = take("dur");
  const reach = new Float64Array(rows);
  let [now, end] = [0, 0];
  for (let row = 0; row < rows; row += 1) {
    now += start[row] as number;
    start[row] = now;
    end = Math.max(end, now + (dur[row] as number));
    reach[row] = end;
  }
  const merged = columns.has("count");
  return {
    level, rows, start, dur, reach,
    busy: merged ? take("busy") : dur,
    count: merged ? whole("count") : new Uint32Array(rows).fill(1),
    label: whole("label"), layer: whole("layer"), step: whole("step"), wait: take("wait"),
  };
}

/** The first index in `[0, rows)` whose value is above `limit`. */
export function firstAbove(values: Float64Array, limit: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The event of a lane that is under way at a time, the one that began last; else one within `near` of it. */
export function eventAt(events: LaneEvents, time: number, near: number): number | null {
  let best: number | null = null;
  for (let row = firstAbove(events.start, time + near) - 1; row >= 0 && (events.reach[row] as number) >= time - near; row -= 1) {
    const [start, dur] = [events.start[row] as number, events.dur[row] as number];
    if (start <= time && start + dur > time) return row;
    if (best === null && start + dur >= time - near) best = row;
  }
  return best;
}
