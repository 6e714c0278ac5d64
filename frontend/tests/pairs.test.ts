import { expect, test } from "vitest";
import { pairsOf } from "../src/pairs";
import type { ProfileEntry } from "../src/types";

const entry = (path: string, step_ms: number | null, changes: object = {}): ProfileEntry => ({
  id: path, label: path, path, bytes: null, card: { gpu: "H200", model: null, framework: null, rank: null, recorded_ns: null, phase: "decode", step_ms, busy_pct: null, finding: "", sentence: "", spark_ms: [], ...changes },
}) as unknown as ProfileEntry;

const names = (profiles: ProfileEntry[]) => pairsOf(profiles).map((pair) => pair.map((one) => one.path));

test("the fastest and the slowest of one workload are a pair, the largest difference first", () => {
  expect(names([entry("runs/a", 20), entry("runs/b", 55), entry("runs/c", 21), entry("graph/x", 4), entry("graph/y", 17)])).toEqual([["graph/x", "graph/y"], ["runs/a", "runs/b"]]);
});

test("what cannot be compared, or hardly differs, is no pair", () => {
  expect(names([entry("runs/a", 20), entry("runs/b", 21)])).toEqual([]);
  expect(names([entry("runs/a", 20), entry("runs/b", 99, { gpu: "B200" })])).toEqual([]);
  expect(names([entry("runs/a", 20), entry("runs/b", 99, { phase: "prefill" })])).toEqual([]);
  expect(names([entry("one/a", 20), entry("two/b", 99)])).toEqual([]);
  expect(names([entry("run/r0", 20, { rank: 0 }), entry("run/r1", 99, { rank: 1 })])).toEqual([]);
  expect(names([entry("runs/a", null), entry("runs/b", 99)])).toEqual([]);
});
