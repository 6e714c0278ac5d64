// Levels of detail of the time line: which events are drawn for what one sees.
import { afterEach, expect, test, vi } from "vitest";
import { decode, eventAt, firstAbove } from "../src/timeline/events";
import { Tiles } from "../src/timeline/tiles";
import type { EventBlock, EventTimeline } from "../src/types";

afterEach(() => vi.unstubAllGlobals());

type Columns = Record<string, number[]>;

/** A block as the library writes it: starts as differences, and each column in planes of bytes. */
async function block(columns: Columns, level: number, from = 0, to = 10_000): Promise<EventBlock> {
  const rows = columns["start"]?.length ?? 0;
  const names = Object.keys(columns);
  const bytes = names.flatMap((name) => [0, 8].flatMap((shift) => (columns[name] as number[]).map((value) => (value >> shift) & 255)));
  const stream = new Blob([Uint8Array.from(bytes)]).stream().pipeThrough(new CompressionStream("deflate"));
  const data = btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
  return { from_ns: from, to_ns: to, level, parts: [{ lane: 0, level, rows }], packed: { columns: names.map((name) => [name, 2]), data } } as unknown as EventBlock;
}

const FINE = { start: [100, 900, 500], dur: [300, 40, 2000], label: [0, 1, 1], layer: [1, 0, 2], step: [0, 0, 0], wait: [0, 0, 0] };
const COARSE = { start: [100], dur: [3400], busy: [2340], count: [3], label: [1], layer: [0], step: [0], wait: [0] };

async function timeline(columns: Columns, level: number): Promise<EventTimeline> {
  return { lanes: [{ kind: "gpu", title: "GPU", depth: 0 }], labels: [], sensors: [], levels: [0, 1000, 8000], tile: 4, span_ns: 40_000, complete: false, block: await block(columns, level, 0, 40_000) } as unknown as EventTimeline;
}

test("a block is put together again to the nanosecond", async () => {
  const lane = (await decode(await block(FINE, 0))).lanes.get(0);
  expect([...(lane?.start ?? [])]).toEqual([100, 1000, 1500]);
  expect([...(lane?.dur ?? [])]).toEqual([300, 40, 2000]);
  expect([...(lane?.reach ?? [])]).toEqual([400, 1040, 3500]);
  expect([...(lane?.count ?? [])]).toEqual([1, 1, 1]);
  expect([...(lane?.busy ?? [])]).toEqual([300, 40, 2000]);
});

test("the event under a time is found, or one close to it", async () => {
  const lane = (await decode(await block(FINE, 0))).lanes.get(0);
  if (!lane) throw new Error("no lane");
  expect(eventAt(lane, 120, 0)).toBe(0);
  expect(eventAt(lane, 3499, 0)).toBe(2);
  expect(eventAt(lane, 450, 0)).toBeNull();
  expect(eventAt(lane, 450, 60)).toBe(0);
});

test("the first above a limit", () => expect([0, 2, 5, 9].map((limit) => firstAbove(Float64Array.from([1, 2, 5, 5]), limit))).toEqual([0, 2, 4, 4]));

test("the level is the coarsest whose events are not wider than what one sees", async () => {
  const tiles = new Tiles(await timeline(FINE, 0), null, () => undefined);
  expect([1, 999, 1000, 7999, 8000, 1e9].map((ns) => tiles.levelFor(ns))).toEqual([0, 0, 1, 1, 2, 2]);
});

test("a report draws what it carries, and is fine where that is fine enough", async () => {
  const changed = vi.fn();
  const tiles = new Tiles(await timeline(COARSE, 1), null, changed);
  await vi.waitFor(() => expect(changed).toHaveBeenCalled());
  expect(tiles.fine(1, 0, 40_000)).toBe(true);
  expect(tiles.fine(0, 0, 40_000)).toBe(false);
  expect(tiles.pieces(0, 0, 0, 5000)).toMatchObject([{ from: 0, to: 5000, events: { level: 1, rows: 1 } }]);
});

test("the dashboard asks for finer events in tiles, once each, and draws the coarse ones until they come", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", vi.fn(async (url: string) => {
    asked.push(url);
    return new Response(JSON.stringify(await block(FINE, 0, 4000, 8000)));
  }));
  const tiles = new Tiles(await timeline(COARSE, 1), "/api/profile/a", () => undefined);
  await vi.waitFor(() => expect(tiles.base).not.toBeNull());
  expect(tiles.pieces(0, 0, 4100, 4200)).toMatchObject([{ from: 4100, to: 4200, events: { level: 1 } }]);
  tiles.want(0, 4100, 4200);
  tiles.want(0, 4100, 4200);
  await vi.waitFor(() => expect(tiles.fine(0, 4100, 4200)).toBe(true));
  // The tile in sight and its two neighbors.
  expect(asked).toEqual([4000, 8000, 0].map((from) => `/api/profile/a/events?from=${from}&level=0&to=${from + 4000}`));
  expect(tiles.pieces(0, 0, 4100, 4200)).toMatchObject([{ from: 4100, to: 4200, events: { level: 0, rows: 3 } }]);
});

test("a server that is gone is said, and the coarse events stay", async () => {
  vi.stubGlobal("fetch", vi.fn(() => Promise.reject(new TypeError("failed to fetch"))));
  const tiles = new Tiles(await timeline(COARSE, 1), "/api/profile/a", () => undefined);
  await vi.waitFor(() => expect(tiles.base).not.toBeNull());
  tiles.want(0, 0, 100);
  await vi.waitFor(() => expect(tiles.problem).toContain("does not answer"));
  expect(tiles.pieces(0, 0, 0, 100)).toMatchObject([{ events: { level: 1 } }]);
});
