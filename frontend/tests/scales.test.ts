import { expect, test } from "vitest";
import { areasOf } from "../src/charts/areas";
import { linear, log, roundStep, ticksOf } from "../src/charts/scale";
import { exact, marks, stepOf } from "../src/timeline/ruler";

test.each([[0.7, 1], [1, 1], [1.01, 2], [3, 5], [7, 10], [0.03, 0.05], [0, 1], [Number.NaN, 1]])("the round step at or above %s is %s", (step, round) => expect(roundStep(step)).toBeCloseTo(round));

test("ticks are round and inside", () => {
  expect(ticksOf(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  expect(ticksOf(13, 97, 4)).toEqual([50]);
  expect(ticksOf(0.1, 0.7, 6)).toEqual([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
});

test("a linear scale reaches from end to end, and can be widened to round ends", () => {
  const plain = linear(3, 97, [100, 500]);
  expect([plain(3), plain(97), plain(50)]).toEqual([100, 500, 300]);
  const whole = linear(3, 97, [100, 500], true);
  expect(whole.domain).toEqual([0, 100]);
  expect(whole.ticks).toEqual([0, 50, 100]);
});

test("a scale of one value is no division by zero", () => {
  for (const scale of [linear(5, 5, [0, 100]), linear(0, 0, [0, 100]), log(10, 10, [0, 100])]) expect(scale(scale.domain[0])).toBe(0);
});

test("a logarithmic scale has powers of ten as ticks", () => {
  const scale = log(0.1, 1000, [0, 400]);
  expect(scale.ticks).toEqual([0.1, 1, 10, 100, 1000]);
  expect(scale(10)).toBeCloseTo(200);
  // Zero has no place on it, and must not be NaN.
  expect(Number.isFinite(scale(0))).toBe(true);
});

test("areas are as large as their sizes, fill the whole and do not overlap", () => {
  const sizes = [40, 30, 20, 5, 3, 2];
  const found = areasOf(sizes, { x: 10, y: 20, width: 300, height: 100 });
  found.forEach((one, at) => expect(one.width * one.height).toBeCloseTo(300 * (sizes[at] as number)));
  for (const one of found) {
    expect(one.x).toBeGreaterThanOrEqual(10 - 1e-9);
    expect(one.y + one.height).toBeLessThanOrEqual(120 + 1e-9);
  }
  for (const a of found) for (const b of found) {
    if (a === b) continue;
    const apart = a.x + a.width <= b.x + 1e-6 || b.x + b.width <= a.x + 1e-6 || a.y + a.height <= b.y + 1e-6 || b.y + b.height <= a.y + 1e-6;
    expect(apart).toBe(true);
  }
});

test.each([[1e6, 900, 1e5], [1e6, 1800, 5e4], [350, 900, 50], [3, 900, 1]])("marks of %s ns on %s pixels are %s apart", (ns, width, step) => expect(stepOf(ns, width)).toBe(step));

test("no two marks of the ruler read alike, however close one looks", () => {
  for (const [from, ns] of [[0, 1e9], [5e8, 2e6], [987_654_321, 900], [987_654_321, 30], [123, 7]] as const) {
    const found = marks(from, from + ns, 1200).marks.map((one) => one.text);
    expect(found.length).toBeGreaterThan(3);
    expect(new Set(found).size).toBe(found.length);
  }
});

test("a time has the decimals that its neighbors need", () => {
  expect(exact(1_500_000, 100_000)).toBe("1.5 ms");
  expect(exact(1_234_567, 1)).toBe("1.234\u2009567 ms");
  expect(exact(0, 1000)).toBe("0 µs");
});
