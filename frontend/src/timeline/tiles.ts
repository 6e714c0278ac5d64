// Which events to draw for a range: those that came with the page, or finer ones that the server is asked for.
import { below } from "../root";
import type { EventBlock, EventTimeline } from "../types";
import { decode, type Decoded, type LaneEvents } from "./events";

/** Answers kept at a time, and asked for at a time. */
const [MOST, AT_ONCE] = [300, 3];

/** Events of a lane that count between `from` and `to`. */
export interface Piece { events: LaneEvents; from: number; to: number; leftmost: boolean }

export class Tiles {
  base: Decoded | null = null;
  private tiles = new Map<string, Decoded | "asked" | "failed">();
  private asked = 0;
  /** Why a finer picture could not be had. */
  problem: string | null = null;

  constructor(readonly timeline: EventTimeline, private address: string | null, private changed: () => void) {
    void decode(timeline.block).then((base) => {
      this.base = base;
      changed();
    });
  }

  /** The coarsest level whose merged events are not wider than `ns`. */
  levelFor(ns: number): number {
    let level = 0;
    for (let at = 1; at < this.timeline.levels.length; at += 1) if ((this.timeline.levels[at] as number) <= ns) level = at;
    return level;
  }

  private width(level: number): number {
    return this.timeline.tile * (this.timeline.levels[Math.max(1, level)] ?? 1);
  }

  /** Whether all lanes are shown as finely as `level` between two times. */
  fine(level: number, from: number, to: number): boolean {
    if (!this.base) return false;
    if (![...this.base.lanes.values()].some((one) => one.level > level)) return true;
    return this.indices(level, from, to).every((at) => typeof this.tiles.get(`${level}:${at}`) === "object");
  }

  private indices(level: number, from: number, to: number): number[] {
    const width = this.width(level);
    const [first, last] = [Math.max(0, Math.floor(from / width)), Math.floor(Math.min(to, this.timeline.span_ns) / width)];
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);
  }

  /** What to draw of one lane. */
  pieces(lane: number, level: number, from: number, to: number): Piece[] {
    const base = this.base?.lanes.get(lane);
    if (!base) return [];
    if (base.level <= level || this.address === null) return [{ events: base, from, to, leftmost: true }];
    const width = this.width(level);
    return this.indices(level, from, to).map((at, position): Piece => {
      const tile = this.tiles.get(`${level}:${at}`);
      const [start, end] = [Math.max(from, at * width), Math.min(to, (at + 1) * width)];
      const events = typeof tile === "object" ? tile.lanes.get(lane) : base;
      return { events: events ?? NOTHING, from: start, to: end, leftmost: position === 0 };
    });
  }

  /** Ask for what a range needs and its neighbors. */
  want(level: number, from: number, to: number): void {
    if (this.address === null || !this.base || ![...this.base.lanes.values()].some((one) => one.level > level)) return;
    const inside = this.indices(level, from, to);
    const first = inside[0] ?? 0;
    const wanted = [...inside, ...[(inside[inside.length - 1] ?? 0) + 1, first - 1].filter((at) => at >= 0 && at * this.width(level) < this.timeline.span_ns)];
    for (const at of wanted) {
      const key = `${level}:${at}`;
      const known = this.tiles.get(key);
      if (known !== undefined) {
        // Used again: the last to be forgotten.
        this.tiles.delete(key);
        this.tiles.set(key, known);
      } else if (this.asked < AT_ONCE) void this.fetch(key, level, at * this.width(level), (at + 1) * this.width(level));
    }
    for (const key of [...this.tiles.keys()].slice(0, Math.max(0, this.tiles.size - MOST))) this.tiles.delete(key);
  }

  private async fetch(key: string, level: number, from: number, to: number): Promise<void> {
    this.asked += 1;
    this.tiles.set(key, "asked");
    try {
      const answer = await fetch(`${below(this.address ?? "")}/events?from=${from}&level=${level}&to=${to}`);
      if (!answer.ok) throw new Error(((await answer.json()) as { error?: string }).error ?? `the server answered ${answer.status}`);
      this.tiles.set(key, await decode((await answer.json()) as EventBlock));
      this.problem = null;
    } catch (error) {
      this.tiles.set(key, "failed");
      this.problem = error instanceof Error && !(error instanceof TypeError) ? error.message : "the server does not answer: single events cannot be shown";
    } finally {
      this.asked -= 1;
      this.changed();
    }
  }
}

const NOTHING: LaneEvents = {
  level: 0, rows: 0, start: new Float64Array(), dur: new Float64Array(), busy: new Float64Array(), count: new Uint32Array(),
  label: new Uint32Array(), layer: new Uint32Array(), step: new Uint32Array(), wait: new Float64Array(), reach: new Float64Array(),
};
