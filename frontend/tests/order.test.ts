import { expect, test } from "vitest";
import { filtered, sorted, windowOf } from "../src/order";

const texts = (rows: { key: string | number | null }[], down = false) => sorted(rows, (row) => row.key, down).map((row) => row.key);

test("numbers sort as numbers, and unknown ones go last either way", () => {
  const rows = [3, null, 20, 1].map((key) => ({ key }));
  expect(texts(rows)).toEqual([1, 3, 20, null]);
  expect(texts(rows, true)).toEqual([20, 3, 1, null]);
});

test("numbers in names sort as numbers", () => expect(texts(["layer 10", "layer 9", "Layer 1"].map((key) => ({ key })))).toEqual(["Layer 1", "layer 9", "layer 10"]));

test("rows that are alike keep their order, down too", () => {
  const rows = [{ key: "b", at: 0 }, { key: "a", at: 1 }, { key: "b", at: 2 }, { key: "a", at: 3 }];
  expect(sorted(rows, (row) => row.key, false).map((row) => row.at)).toEqual([1, 3, 0, 2]);
  expect(sorted(rows, (row) => row.key, true).map((row) => row.at)).toEqual([0, 2, 1, 3]);
});

test("a filter wants all words, in any order and case", () => {
  const rows = ["void gemm_bf16", "gemm_fp8", "norm"];
  expect(filtered(rows, "  BF16 gemm ", (row) => row)).toEqual(["void gemm_bf16"]);
  expect(filtered(rows, " ", (row) => row)).toBe(rows);
});

test("of 20,000 rows only those in sight are drawn, and the room of the others is the same", () => {
  for (const top of [0, 31, 320_000, 639_500]) {
    const { first, end, above, below } = windowOf(20_000, new Map(), 32, top, 640);
    expect(end - first).toBeLessThan(64);
    expect(32 * first).toBeLessThanOrEqual(top);
    expect(32 * end).toBeGreaterThanOrEqual(Math.min(top + 640, 640_000));
    expect(above + (end - first) * 32 + below).toBe(640_000);
  }
});

test("rows that were opened are as tall as they are", () => {
  const heights = new Map([[0, 500], [1, 32]]);
  const { first, end, above, below } = windowOf(1000, heights, 32, 1200, 320);
  // Row 0 takes 500 pixels, so the first in sight is row 22: 500 + 22 * 32 = 1204.
  expect(first).toBe(2);
  expect(above).toBe(500 + 32);
  expect(above + (end - first) * 32 + below).toBe(500 + 999 * 32);
});

test("a table that was scrolled past its end draws its last rows", () => expect(windowOf(100, new Map(), 32, 1e6, 600)).toMatchObject({ first: 80, end: 100, below: 0 }));
